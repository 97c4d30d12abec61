"""Which labels were in the batch, and how many of each: one file per method."""

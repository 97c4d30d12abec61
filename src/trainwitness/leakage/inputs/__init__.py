"""What the inputs of the batch were: one file per method."""

"""WHICH data, fixed in advance: canonical rows under Merkle trees, and proofs of what is and is not among them."""

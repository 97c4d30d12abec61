"""WHICH data, fixed in advance: Merkle trees over canonical rows."""

"""IS it true: recomputation, distances, and the verdict."""

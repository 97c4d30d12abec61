"""The questions users ask, composed from the rooms above."""

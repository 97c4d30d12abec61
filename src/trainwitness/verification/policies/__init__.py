"""How a threshold is chosen: one policy per file."""

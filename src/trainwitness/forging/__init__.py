"""COULD it be a lie: one file per attack, and the forging game."""

"""Data sets read from files: one module each, with the layouts it knows."""

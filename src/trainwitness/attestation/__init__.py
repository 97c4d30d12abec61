"""WHO says so, and when: signed statements, timestamps, and how they are checked."""

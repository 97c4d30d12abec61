"""WHAT is trained: Task, Dataset, Domain, Schedule, and the built-in tasks."""

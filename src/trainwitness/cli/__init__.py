"""The command line: one file per verb, no logic. Importing it must not import torch."""

"""exhaustive: is there any other batch with this exact gradient? Every batch of a small domain is looked at."""

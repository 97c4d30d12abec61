"""exhaustive: is there any other batch at all with this exact gradient? Every batch of a small domain is looked at."""

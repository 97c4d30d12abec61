"""Plain data everyone shares. Nothing here trains, reads files of a trace, or judges."""

"""WHAT was recorded: the recorder, the trace format, and its reader."""

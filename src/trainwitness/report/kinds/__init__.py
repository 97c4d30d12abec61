"""One file per kind of result; importing this package registers them all."""

from trainwitness.report.kinds import calibrate, diff, forge, hardware, inspect, play, record, reproduce, verify

__all__ = ["calibrate", "diff", "forge", "hardware", "inspect", "play", "record", "reproduce", "verify"]

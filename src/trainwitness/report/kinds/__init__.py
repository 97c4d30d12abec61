"""One file per kind of result; importing this package registers them all."""

from trainwitness.report.kinds import (
    calibrate,
    certificate,
    claim,
    diff,
    evidence,
    forge,
    forgeability,
    hardware,
    inspect,
    play,
    record,
    reproduce,
    verify,
)

__all__ = [
    "calibrate",
    "certificate",
    "claim",
    "diff",
    "evidence",
    "forge",
    "forgeability",
    "hardware",
    "inspect",
    "play",
    "record",
    "reproduce",
    "verify",
]

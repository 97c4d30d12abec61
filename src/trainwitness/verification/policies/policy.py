"""Policy: where a threshold comes from. Small objects, composed by whoever verifies."""

from __future__ import annotations

from typing import Protocol

from trainwitness.core.errors import UsageError
from trainwitness.core.verdict import Threshold
from trainwitness.verification.calibration import Calibration

TRACE_STEPS = 1000
"""False rejections are stated for honest traces of this many steps."""
RATE = 0.01
"""The default share of such traces that may be rejected."""


class Policy(Protocol):
    """Gives the Threshold of a whole trace; `adaptive` ones also tighten it step by step."""

    def threshold(self) -> Threshold:
        """The largest errors that count as benign in any step, and why."""
        ...


def named_policy(text: str, calibration: Calibration) -> Policy:
    """A policy by name, with its number after a colon: `largest:4`, `extreme:0.01`, `adaptive:0.01`."""
    from trainwitness.verification.policies.adaptive import Adaptive
    from trainwitness.verification.policies.extreme import Extreme
    from trainwitness.verification.policies.largest import Largest

    name, colon, number = text.partition(":")
    try:
        value = [float(number)] if colon else []
    except ValueError as error:
        raise UsageError(f"policy {text!r}: {number!r} is not a number") from error
    if name == "largest":
        return Largest(calibration, *value)
    if name == "extreme":
        return Extreme(calibration, *value)
    if name == "adaptive":
        return Adaptive(calibration, Extreme(calibration, *value), *value)
    raise UsageError(
        f"unknown policy {name!r}",
        hint="largest[:MARGIN], extreme[:RATE] or adaptive[:RATE]; a fixed threshold is given with --threshold",
    )

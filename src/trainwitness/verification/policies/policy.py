"""Policy: where a threshold comes from. Small objects, composed by whoever verifies."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from trainwitness.core.errors import UsageError
from trainwitness.core.verdict import MAX_SHARE, Threshold
from trainwitness.verification.calibration import Calibration

TRACE_STEPS = 1000
"""False rejections are stated for honest traces of this many steps."""
RATE = 0.01
"""The default share of such traces that may be rejected."""


def bounded(value: float, calibration: Calibration) -> float:
    """An l2 limit, but not beyond what can be benign: a share of the updates, or the largest error really seen."""
    updates = float(np.median([sample.update for sample in calibration.samples])) if calibration.samples else 0.0
    return min(value, max(MAX_SHARE * updates, calibration.eps_repr))


class Policy(Protocol):
    """Gives the Threshold of a whole trace; `adaptive` ones also tighten it step by step."""

    def threshold(self) -> Threshold:
        """The largest errors that count as benign in any step, and why."""
        ...


def named_policy(text: str, calibration: Calibration, steps: int = TRACE_STEPS) -> Policy:
    """A policy by name for a trace of so many steps, with its number after a colon: `largest:4`, `extreme:0.01`."""
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
    rate, steps = value[0] if value else RATE, max(steps, TRACE_STEPS)
    if name == "extreme":
        return Extreme(calibration, rate, steps)
    if name == "adaptive":
        return Adaptive(calibration, Extreme(calibration, rate, steps), rate, steps)
    raise UsageError(
        f"unknown policy {name!r}",
        hint="largest[:MARGIN], extreme[:RATE] or adaptive[:RATE]; a fixed threshold is given with --threshold",
    )

"""extreme: the quantile that an honest trace exceeds with a stated probability (peaks over threshold)."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from trainwitness.core.errors import UsageError
from trainwitness.core.verdict import Threshold
from trainwitness.verification.calibration import Array, Calibration, Part
from trainwitness.verification.policies.held_out import held_out
from trainwitness.verification.policies.jumps import jump_cap
from trainwitness.verification.policies.policy import RATE, TRACE_STEPS

_PEAKS = 0.8
"""Errors above this quantile are the tail."""
_ALIKE = 10.0
"""Sources whose typical error is this much smaller than the noisiest one's are left out: they would thin the tail."""
_JUMP = 4.0
"""An error this many times the median is a jump."""
_MOST = 10.0
"""A quantile further out than this many times the largest error is a fit to too few or too different errors."""
_MIN_TAIL = 0.05
"""The least spread of the tail in units of log error, so that a handful of equal values promises nothing."""


@dataclass(frozen=True)
class Extreme:
    """At most `rate` of honest traces of 1,000 steps have any step above the threshold that no near tie explains."""

    calibration: Calibration
    rate: float = RATE

    def __post_init__(self) -> None:
        if not 0 < self.rate < 1:
            raise UsageError(f"a false-rejection rate of {self.rate}", hint="choose a rate between 0 and 1")

    def threshold(self) -> Threshold:
        samples = sum(map(len, self.calibration.errors().values()))
        return Threshold(
            value=self._part("l2"),
            origin=f"extreme-value quantile of {samples} honest errors",
            buffers=min(1.0, self._part("buffers")),
            optimizer=min(1.0, self._part("optimizer")),
            jumps=jump_cap(self.calibration),
            false_rejection=held_out(
                self.calibration, lambda part: Extreme(part, self.rate)._part("l2"), stated=self.rate
            ),
        )

    def _part(self, part: Part) -> float:
        errors = noisiest(self.calibration.errors(part).values())
        if jump_cap(self.calibration) is not None:
            errors = smooth(errors)
        return tail_quantile(errors, self.rate / TRACE_STEPS)


def smooth(errors: Array) -> Array:
    """The errors without jumps (see `jumps.py`), which are another population and are judged by themselves."""
    return errors[errors <= _JUMP * np.median(errors)] if len(errors) else errors


def noisiest(sources: Collection[Array]) -> Array:
    """The errors of the noisiest source and of those that are nearly as noisy, zeros left out."""
    nonzero = [errors[errors > 0] for errors in sources if bool((errors > 0).any())]
    if not nonzero:
        return np.zeros(0)
    typical = max(float(np.median(errors)) for errors in nonzero)
    return np.concatenate([errors for errors in nonzero if np.median(errors) * _ALIKE >= typical])


def tail_quantile(errors: Array, probability: float) -> float:
    """The value that one such error exceeds with `probability`; 0 if there are no errors.

    Peaks over threshold: the logarithms' excess over their 80% quantile is taken as exponential, the generalised
    Pareto distribution of shape 0, which makes the errors' own tail a power law. A fitted shape follows a few stray
    values of a few dozen (it moved the quantile by factors of a thousand in trials); rounding errors, being sums,
    have lighter tails than this one.
    """
    if not len(errors):
        return 0.0
    logs = np.log(errors)
    start = float(np.quantile(logs, _PEAKS))
    excess = logs[logs > start] - start
    share = max(len(excess), 1) / len(logs)
    scale = max(float(excess.mean()) if len(excess) else 0.0, _MIN_TAIL)
    largest = float(errors.max())
    return min(max(math.exp(start + scale * math.log(share / probability)), largest), _MOST * largest)

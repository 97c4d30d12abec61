"""extreme: the quantile that an honest trace exceeds with a stated probability (peaks over threshold)."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from trainwitness.core.errors import UsageError
from trainwitness.core.verdict import MAX_SHARE, Threshold
from trainwitness.verification.calibration import Array, Calibration, Part, Sample
from trainwitness.verification.policies.held_out import held_out
from trainwitness.verification.policies.jumps import jump_cap
from trainwitness.verification.policies.policy import RATE, TRACE_STEPS, bounded

_PEAKS = 0.8
"""Errors above this quantile are the tail."""
_ALIKE = 10.0
"""Sources whose typical error is this much smaller than the noisiest one's are left out: they would thin the tail."""
_JUMP = 4.0
"""An error this many times the median of its step is a jump."""
_MOST = 10.0
"""A quantile further out than this many times the largest error is a fit to too few or too different errors."""
_MIN_TAIL = 0.05
"""The least spread of the tail in units of log error, so that a handful of equal values promises nothing."""


@dataclass(frozen=True)
class Extreme:
    """At most `rate` of honest traces of so many steps have any step above the threshold that no tie explains."""

    calibration: Calibration
    rate: float = RATE
    steps: int = TRACE_STEPS

    def __post_init__(self) -> None:
        if not 0 < self.rate < 1:
            raise UsageError(f"a false-rejection rate of {self.rate}", hint="choose a rate between 0 and 1")

    def threshold(self) -> Threshold:
        samples = sum(map(len, self.calibration.errors().values()))
        return Threshold(
            value=bounded(self._part("l2"), self.calibration),
            origin=f"extreme-value quantile of {samples} honest errors in {self.calibration.horizon} steps",
            buffers=min(MAX_SHARE, self._part("buffers")),
            optimizer=min(MAX_SHARE, self._part("optimizer")),
            jumps=jump_cap(self.calibration),
            false_rejection=held_out(
                self.calibration,
                lambda part: Extreme(part, self.rate, self.steps)._part("l2"),
                stated=self.rate,
                steps=self.steps,
            ),
        )

    def _part(self, part: Part) -> float:
        calibration = self.calibration
        if jump_cap(calibration) is not None:
            calibration = calibration.model_copy(update={"samples": smooth(calibration.samples)})
        return tail_quantile(noisiest(calibration.errors(part).values()), self.rate / max(self.steps, 1))


def smooth(samples: Sequence[Sample]) -> list[Sample]:
    """The samples without jumps (see `jumps.py`), which are another population and are judged by themselves.

    A jump is far above the other errors of its own step: noise as such differs from step to step (Adam's first).
    """
    steps: dict[int, list[float]] = {}
    for sample in samples:
        if sample.l2:
            steps.setdefault(sample.step, []).append(sample.l2)
    typical = {step: float(np.median(errors)) for step, errors in steps.items()}
    return [sample for sample in samples if sample.l2 <= _JUMP * typical.get(sample.step, 0.0)]


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

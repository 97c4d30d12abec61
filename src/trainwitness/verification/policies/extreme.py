"""extreme: the quantile that an honest trace exceeds with a stated probability (peaks over threshold)."""

from __future__ import annotations

import math
import warnings
from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from trainwitness.core.errors import UsageError
from trainwitness.core.verdict import Threshold
from trainwitness.verification.calibration import Array, Calibration, Part
from trainwitness.verification.policies.held_out import held_out
from trainwitness.verification.policies.policy import RATE, TRACE_STEPS

_PEAKS = 0.8
"""Errors above this quantile are the tail."""
_ALIKE = 10.0
"""Sources whose typical error is this much smaller than the noisiest one's are left out: they would thin the tail."""
_MAX_SHAPE = 0.25
"""Logarithms of rounding errors do not have heavier tails than this; a fit to a few dozen values may say so."""
_MIN_TAIL = 0.05
"""The least spread of the tail in units of log error, so that a handful of equal values promises nothing."""


@dataclass(frozen=True)
class Extreme:
    """At most `rate` of honest traces of 1,000 steps have any step above the threshold."""

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
            false_rejection=held_out(
                self.calibration, lambda part: Extreme(part, self.rate)._part("l2"), stated=self.rate
            ),
        )

    def _part(self, part: Part) -> float:
        return tail_quantile(noisiest(self.calibration.errors(part).values()), self.rate / TRACE_STEPS)


def noisiest(sources: Collection[Array]) -> Array:
    """The errors of the noisiest source and of those that are nearly as noisy, zeros left out."""
    nonzero = [errors[errors > 0] for errors in sources if bool((errors > 0).any())]
    if not nonzero:
        return np.zeros(0)
    typical = max(float(np.median(errors)) for errors in nonzero)
    return np.concatenate([errors for errors in nonzero if np.median(errors) * _ALIKE >= typical])


def tail_quantile(errors: Array, probability: float) -> float:
    """The value that one such error exceeds with `probability`.

    A generalised Pareto distribution is fitted to the logarithms' excess over their 80% quantile; its shape is taken
    as at least 0 (an exponential tail of the logarithms, a power law of the errors). 0 if there are no errors.
    """
    if not len(errors):
        return 0.0
    from scipy.stats import genpareto

    logs = np.log(errors)
    start = float(np.quantile(logs, _PEAKS))
    excess = logs[logs > start] - start
    if len(excess) < 2:
        return float(errors.max()) * math.exp(_MIN_TAIL * math.log(1 / probability))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # scipy tries parameters for which the density is 0
        shape, _, scale = genpareto.fit(excess, floc=0)
    if not 0 <= shape <= _MAX_SHAPE:
        shape = min(max(shape, 0.0), _MAX_SHAPE)
        scale = float(excess.mean()) * (1 - shape)  # the mean of the distribution is scale / (1 - shape)
    scale = max(float(scale), _MIN_TAIL)
    beyond = float(genpareto.isf(probability / (len(excess) / len(logs)), shape, scale=scale))
    return max(math.exp(start + beyond), float(errors.max()))

"""adaptive: every step judged on its own scale of noise, below a cap that it cannot move."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trainwitness.core.batch import Batch
from trainwitness.core.numerics import Numerics
from trainwitness.core.seeds import derive
from trainwitness.core.state import State
from trainwitness.core.verdict import Threshold
from trainwitness.tasks.task import Task
from trainwitness.verification.calibration import Calibration, Sample
from trainwitness.verification.distance import Ruler
from trainwitness.verification.noise import NOT_HARDWARE, Probe, Variation
from trainwitness.verification.policies.extreme import smooth, tail_quantile
from trainwitness.verification.policies.held_out import held_out
from trainwitness.verification.policies.policy import RATE, TRACE_STEPS, Policy

ORDERS = 3
"""Recomputations in another order per step; a fourth would narrow the scale by a tenth."""
MIXED = ("float16", "bfloat16")
MIN_MARGIN = 4.0
"""Two machines round independently, so an honest error can exceed what either shows; never judge closer."""


@dataclass(frozen=True)
class Adaptive:
    """min(cap, margin x scale): the scale is the rms error of this very step in other orders of its examples.

    Only where parameters and arithmetic have the same precision. In mixed precision what one machine rounds in a step
    says little about another (float16, GPU against CPU: honest errors above four times the CPU's own), so there the
    cap alone judges.

    The steps are the owner's, so their noise is too: a batch can be crafted to be noisy. The cap comes from another
    policy on a calibration that never saw the trace, so such a step is allowed no more than any other.
    """

    calibration: Calibration
    cap: Policy
    rate: float = RATE
    steps: int = TRACE_STEPS

    def threshold(self) -> Threshold:
        cap = self.cap.threshold()
        if self.calibration.numerics.precision in MIXED:
            return cap
        ratios = ratios_to_scale(smooth(self.calibration.samples))
        held = held_out(
            self.calibration.model_copy(update={"samples": ratios}),
            lambda part: _margin([sample.l2 for sample in part.samples], self.rate / max(self.steps, 1)),
            stated=self.rate if ratios else None,
            steps=self.steps,
        )
        origin = f"{self.margin:.3g} x each step's own noise, at most the {cap.origin}"
        return cap.model_copy(update={"origin": origin, "adaptive": True, "false_rejection": held})

    @property
    def margin(self) -> float:
        """How many times its scale an honest error reaches, at the stated rate."""
        ratios = ratios_to_scale(smooth(self.calibration.samples))
        return _margin([sample.l2 for sample in ratios], self.rate / max(self.steps, 1))

    def scale(self, task: Task, numerics: Numerics, start: State) -> StepScale | None:
        """Measures scales beside a verification that starts from `start`; None where the cap alone judges."""
        return None if numerics.precision in MIXED else StepScale(task, numerics, start, self.margin)


def _margin(ratios: Sequence[float], probability: float) -> float:
    return max(MIN_MARGIN, tail_quantile(np.array(ratios), probability))


def ratios_to_scale(samples: Sequence[Sample]) -> list[Sample]:
    """Every honest error over the scale of its step, as at least two other samples of that step give it."""
    steps: dict[int, list[Sample]] = {}
    for sample in samples:
        if sample.source not in NOT_HARDWARE:
            steps.setdefault(sample.step, []).append(sample)
    ratios = []
    for found in steps.values():
        orders = [k for k, sample in enumerate(found) if sample.source == "order"]
        for number, sample in enumerate(found):
            others = [found[k].l2 for k in orders if k != number][:ORDERS]
            if len(others) >= 2 and any(others) and sample.l2:
                ratios.append(sample._replace(l2=sample.l2 / _rms(others)))
    return ratios


def _rms(values: Sequence[float]) -> float:
    return float(np.sqrt(np.mean(np.square(values))))


class StepScale:
    """Follows a verification with a few probes and gives each step's limit."""

    def __init__(self, task: Task, numerics: Numerics, start: State, margin: float) -> None:
        seeds = [derive(task.seed, "scale", k) for k in range(ORDERS)]
        self._probes = [Probe(task, Variation("order", numerics, order=seed)) for seed in seeds]
        self._ruler, self._margin = Ruler(numerics.precision, numerics.precision), margin
        self.start(start)

    def start(self, state: State) -> None:
        """Begins again from a State."""
        for probe in self._probes:
            probe.start(state)

    def limit(self, before: State, batches: Sequence[Batch], computed: State) -> float | None:
        """margin x scale of the step that was computed; None where the probes give the same bits."""
        errors = [self._ruler(computed, probe.follow(before, batches)).l2 for probe in self._probes]
        scale = _rms(errors)
        return self._margin * scale if scale else None

"""Jumps: where two values nearly tie, a rectifier or a maximum may choose otherwise on another machine.

Such a step's gradient is not a little off but that of another linear piece: in LeNet 2 to 4 of 100 honest steps jump
by up to 1% of the update, a thousand times the rounding error of the others. A threshold for all steps that allows
jumps admits forgeries; one that does not rejects the honest. So a step above its limit is computed again with inputs
changed in their last bits. If it has near ties, they fall the other way in some of these runs, and an honest error is
a combination of those differences: what is left outside of them must be as small as any other step's error.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Sequence

import numpy as np
import torch

from trainwitness.core.batch import Batch
from trainwitness.core.numerics import Numerics
from trainwitness.core.state import State
from trainwitness.core.verdict import MAX_SHARE
from trainwitness.tasks.task import Task
from trainwitness.verification.calibration import Calibration
from trainwitness.verification.distance import update_size
from trainwitness.verification.noise import Probe, Variation

TRIES = 24
"""One run turns a given tie with a probability of about a third; all of these miss it once in 17,000."""
_DIRECTIONS = 8
"""Runs that jumped, and are kept to explain the step by."""
_LARGEST_COEFFICIENT = 1.5
"""A tie falls one way or the other, so differences are added or left out, not multiplied."""


class Jumps:
    """Explains honest jumps of single steps, as far as a cap that the step cannot move."""

    def __init__(self, task: Task, numerics: Numerics, cap: float) -> None:
        # Not a seed of the run: whoever made the trace must not be able to try it beforehand.
        self._probe = Probe(task, Variation("jitter", numerics, jitter=secrets.randbits(63)))
        self._cap = cap

    def explain(
        self, start: State, batches: Sequence[Batch], computed: State, stored: State, limit: float
    ) -> State | None:
        """The step's State with ties fallen as in the trace, from our own runs; None if ties do not explain it."""
        error = _flat(stored) - _flat(computed)
        cap = min(self._cap, MAX_SHARE * update_size(start, computed))
        if not float(error.norm()) <= cap:
            return None
        runs: list[State] = []
        for _ in range(TRIES):
            self._probe.start(start)
            run = self._probe.follow(start, batches)
            if float((_flat(run) - _flat(computed)).norm()) <= limit:
                continue  # no tie fell the other way
            runs.append(run.clone())
            directions = torch.stack([_flat(run) - _flat(computed) for run in runs], dim=1)
            coefficients = torch.linalg.lstsq(directions, error[:, None]).solution[:, 0]
            rest = float((error - directions @ coefficients).norm())
            if rest <= limit and float(coefficients.abs().max()) <= _LARGEST_COEFFICIENT:
                return _combined(computed, runs, coefficients.tolist())
            if len(runs) == _DIRECTIONS:
                return None
        return None


def jump_cap(calibration: Calibration) -> float | None:
    """What a jump may reach at most: a share of the updates the verifier saw; None where jitter cannot find any."""
    if calibration.numerics.precision not in ("float32", "float64") or "jitter" not in calibration.sources:
        return None
    return MAX_SHARE * float(np.median([sample.update for sample in calibration.samples]))


def _flat(state: State) -> torch.Tensor:
    parts = [t.reshape(-1).double() for n, t in sorted(state.tensors.items()) if n.startswith("param/")]
    return torch.nan_to_num(torch.cat(parts), nan=math.inf)


def _combined(computed: State, runs: Sequence[State], coefficients: Sequence[float]) -> State:
    """computed + sum of coefficient x (run - computed), in parameters, buffers and optimiser alike."""
    tensors = {}
    for name, tensor in computed.tensors.items():
        value = tensor.double()
        if tensor.is_floating_point() and not computed.is_counter(name) and not name.startswith("scaler/"):
            for run, coefficient in zip(runs, coefficients, strict=True):
                value = value + coefficient * (run.tensors[name].double() - tensor.double())
        tensors[name] = value.to(tensor.dtype)
    return State(tensors)

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
from trainwitness.tasks.task import Task
from trainwitness.verification.calibration import Calibration
from trainwitness.verification.distance import update_size
from trainwitness.verification.noise import JITTER, Probe, Variation

TRIES = 40
_WIDER = 8
"""After so many tries the inputs are changed by twice as much: other kernels may differ by more than these do."""
_DIRECTIONS = 12
"""Runs that are kept to explain the step by, at most."""
_LESS = 0.95
"""A run is kept if it leaves less than this share of what was left without it: a tie of the step fell in it."""
_LARGEST_COEFFICIENT = 1.5
"""A tie falls one way or the other, so differences are added or left out, not multiplied."""
_LARGEST_SHARE = 0.25
"""What a jump may be at most of the update: one example of a small batch on another linear piece."""
_GIVE_UP = 10
"""Steps that nothing explains; the trace is refused by then, and no more time goes into it."""


class Jumps:
    """Explains honest jumps of single steps, as far as a cap that the step cannot move."""

    def __init__(self, task: Task, numerics: Numerics, cap: float) -> None:
        # Not a seed of the run: whoever made the trace must not be able to try it beforehand.
        self._probe = Probe(task, Variation("jitter", numerics, jitter=secrets.randbits(63)))
        self._cap = cap
        self._unexplained = 0

    def explain(
        self, start: State, batches: Sequence[Batch], computed: State, stored: State, limit: float
    ) -> State | None:
        """The step's State with ties fallen as in the trace, from our own runs; None if ties do not explain it."""
        here, error = _flat(computed), _flat(stored) - _flat(computed)
        cap = min(self._cap, _LARGEST_SHARE * update_size(start, computed))
        if self._unexplained < _GIVE_UP and float(error.norm()) <= cap:
            runs: list[State] = []
            least = float(error.norm())
            for number in range(TRIES):
                self._probe.ulps = JITTER * 2 ** (number // _WIDER)
                self._probe.start(start)
                tried = [*runs, self._probe.follow(start, batches)]
                directions = torch.stack([_flat(run) - here for run in tried], dim=1)
                coefficients = torch.linalg.lstsq(directions, error[:, None]).solution[:, 0]
                rest = float((error - directions @ coefficients).norm())
                if rest <= limit and float(coefficients.abs().max()) <= _LARGEST_COEFFICIENT:
                    return _combined(computed, tried, coefficients.tolist())
                if rest < _LESS * least and len(runs) < _DIRECTIONS:
                    runs, least = [*runs, tried[-1].clone()], rest
        self._unexplained += 1
        return None


def jump_cap(calibration: Calibration) -> float | None:
    """What a jump may reach at most: a share of the updates the verifier saw; None where jitter cannot find any."""
    if calibration.numerics.precision not in ("float32", "float64") or "jitter" not in calibration.sources:
        return None
    return _LARGEST_SHARE * float(np.median([sample.update for sample in calibration.samples]))


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

"""Jumps: where two values nearly tie, a rectifier or a maximum may choose otherwise on another machine.

Such a step's gradient is not a little off but that of another linear piece: in LeNet 1 to 4 of 100 honest steps jump
by up to 1% of the update, a thousand times the rounding error of the others. A threshold for all steps that allows
jumps admits forgeries; one that does not rejects the honest. So a step above its limit is computed again with inputs
changed in their last bits. If the step has near ties, they fall the other way in some of these runs, and its error is
of their size.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from trainwitness.core.batch import Batch
from trainwitness.core.numerics import Numerics
from trainwitness.core.seeds import derive
from trainwitness.core.state import State
from trainwitness.core.verdict import MAX_SHARE
from trainwitness.tasks.task import Task
from trainwitness.verification.calibration import Calibration
from trainwitness.verification.distance import Ruler
from trainwitness.verification.noise import Probe, Variation

TRIES = 24
"""One run turns a given tie with a probability of about a third; all of these miss it once in 17,000."""
MARGIN = 2.0
"""Several ties can fall the other way at once."""


class Jumps:
    """How far honest results of one step jump, as far as a cap that the step cannot move."""

    def __init__(self, task: Task, numerics: Numerics, cap: float) -> None:
        seed = derive(task.seed, "jumps")
        self._probe = Probe(task, Variation("jitter", numerics, jitter=seed))
        self._ruler, self._cap = Ruler(numerics.precision, numerics.precision), cap

    def limit(self, start: State, batches: Sequence[Batch], computed: State, error: float) -> float:
        """Up to what error a jump explains the step; stops looking when `error` is explained."""
        largest = 0.0
        for _ in range(TRIES):
            self._probe.start(start)
            largest = max(largest, self._ruler(computed, self._probe.follow(start, batches)).l2)
            if largest * MARGIN >= error:
                break
        return min(largest * MARGIN, self._cap)


def jump_cap(calibration: Calibration) -> float | None:
    """What a jump may reach at most: a share of the updates the verifier saw; None where jitter cannot find any."""
    if calibration.numerics.precision not in ("float32", "float64") or "jitter" not in calibration.sources:
        return None
    return MAX_SHARE * float(np.median([sample.update for sample in calibration.samples]))

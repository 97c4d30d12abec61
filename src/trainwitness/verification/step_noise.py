"""How far honest recomputations of one step differ here, source by source: a calibration of a single step."""

from __future__ import annotations

from dataclasses import replace

from trainwitness.core.batch import Batch
from trainwitness.core.errors import UsageError
from trainwitness.core.numerics import Numerics
from trainwitness.core.seeds import derive
from trainwitness.core.state import State
from trainwitness.tasks.task import Task
from trainwitness.training.apply_numerics import COMPUTE_DTYPE
from trainwitness.verification.cast import cast
from trainwitness.verification.distance import Ruler
from trainwitness.verification.noise import Probe, variations

ORDERS = 20


def step_noise(task: Task, numerics: Numerics, before: State, after: State, batch: Batch) -> dict[str, float]:
    """The largest l2 error of each source of noise; of other orders of the batch, the largest of 20."""
    singles = {one.source: one for one in next(variations(task, numerics, 100))}
    order = singles.pop("order")
    orders = [replace(order, order=derive(task.seed, "noise", k)) for k in range(ORDERS)]
    found: dict[str, float] = {}
    probe: Probe | None = None
    for variation in [*orders, *singles.values()]:
        try:
            if probe is None or not probe.can_be(variation):
                probe = Probe(task, variation)
            probe.variation = variation
            probe.start(before)
            computed = cast(probe.follow(before, [batch]), COMPUTE_DTYPE[numerics.precision])
        except (UsageError, RuntimeError):  # a switch that this machine or this model does not have
            probe = None
            continue
        distance = Ruler(numerics.precision, variation.numerics.precision)(after, computed)
        found[variation.source] = max(found.get(variation.source, 0.0), distance.l2)
    return found

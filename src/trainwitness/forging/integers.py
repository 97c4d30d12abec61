"""Whole numbers inside a box that leave a first layer's outputs and gradient as they are, nearly.

Plain arrays in, plain arrays out; the attack `lattice` puts it to use on a step of a trace.

    plan = plan_change(values, weights, errors, wanted, low=0, high=255)     # real numbers, in both null spaces
    whole = round_change(plan, Effort(scale=2.0**16))                        # whole numbers
    whole.values, whole.outside                                              # [b, d], and how many were clipped
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np
import numpy.typing as npt

from trainwitness.forging.reduction import Basis, nearest_in_product, short_basis
from trainwitness.forging.relax import change_where_possible, independent, null_projection
from trainwitness.forging.repair import into_box

Reals = npt.NDArray[np.float64]
Places = npt.NDArray[np.int64]
HOPELESS = 60
"""Numbers outside the box from which on further roundings of the same plan are not tried."""


@dataclass(frozen=True)
class Effort:
    """What rounding may cost. A larger scale means a smaller error and rougher rounding, which needs more margin."""

    scale: float = 2.0**16
    """How much more a product with weights or errors (of root mean square 1) counts than a change of a value."""
    block: int = 20
    """Block size of BKZ after LLL; 0 for none."""
    tries: int = 6
    """Roundings of slightly different changes, until one stays inside the box."""


@dataclass(frozen=True, eq=False)
class Plan:
    """A real-valued change that both null spaces and the box allow."""

    values: Reals
    """[b, d]: where it starts."""
    low: Reals
    high: Reals
    moved: Places
    """Columns that move."""
    setting: Places
    """Of these, the places of those that set the outputs right; they keep three times the margin."""
    change: Reals
    """[b, moved]"""
    weights: Reals
    """[moved, rank]"""
    errors: Reals
    """[b, rank]"""


@dataclass(frozen=True, eq=False)
class Whole:
    """Whole numbers found in place of the given ones."""

    values: Reals
    """[b, d], inside the box."""
    outside: int
    """Numbers that had to be clipped to the box; 0 if the outputs and the gradient are kept."""
    rough: float
    """Root mean square of what rounding changed."""
    plan: Plan
    left: Basis
    right: Basis

    def nudged(self, rng: np.random.Generator) -> Whole | None:
        """The same with one product of short vectors added; None if that leaves the box."""
        rows, columns = self.left.shortest, self.right.shortest
        move = np.outer(columns[rng.integers(len(columns))], rows[rng.integers(len(rows))]) * rng.choice([-1, 1])
        values = self.values.copy()
        values[:, self.plan.moved[self.plan.setting]] += move
        if ((values < self.plan.low) | (values > self.plan.high)).any():
            return None
        return replace(self, values=values)


def plan_change(
    values: Reals,
    weights: Reals,
    errors: Reals,
    wanted: Reals,
    *,
    low: Reals | float,
    high: Reals | float,
    margin: float = 8.0,
    setting: int = 200,
    calm: float = 0.0,
) -> Plan | None:
    """The change of `values` [b, d] towards `wanted` that keeps values @ weights and values' @ errors; None if none.

    `errors` [b, n] are what comes back to the first layer; `weights` [d, n] are its weights, in a unit in which a
    product with them does as much harm as one with the errors. The values keep `margin` from the sides of the box
    low..high, and three times as much in the `setting` roomiest columns, which go to the middle of the box as far as
    `calm` (0 to 1) says instead of where they are wanted.
    """
    low, high = (np.broadcast_to(np.asarray(side, np.float64), values.shape) for side in (low, high))
    roomy = _roomy(values, weights, errors, low, high)[:setting]
    margins = np.full(values.shape[1], margin)
    margins[roomy] *= 3
    wanted = wanted.copy()
    wanted[:, roomy] += calm * ((low + high)[:, roomy] / 2 - wanted[:, roomy])
    change, moved = change_where_possible(
        wanted - values, weights, errors, low - values + margins, high - values - margins
    )
    if not len(moved):
        return None
    setters = np.argsort(-margins[moved], kind="stable")[:setting]
    return Plan(values, low, high, moved, setters, change, independent(weights[moved]), independent(errors))


def _roomy(values: Reals, weights: Reals, errors: Reals, low: Reals, high: Reals) -> Places:
    """Columns by how far inside the box they can be, all examples at once; the roomiest first."""
    centred = values + null_projection(weights, errors)((low + high) / 2 - values)
    return np.argsort(-np.minimum(centred - low, high - centred).min(0), kind="stable")


def round_change(plan: Plan, effort: Effort | None = None) -> Whole:
    """Rounds a plan to whole numbers; the best of a few tries, by how many numbers had to be clipped."""
    effort = effort or Effort()
    best: Whole | None = None
    for found in islice(roundings(plan, effort), max(1, effort.tries)):
        if best is None or found.outside < best.outside:
            best = found
        if not best.outside or best.outside > HOPELESS:
            break
    assert best is not None
    return best


def roundings(plan: Plan, effort: Effort) -> Iterator[Whole]:
    """One after the other, without end: of the plan's change, then of changes a little beside it."""
    unit = float(np.sqrt((plan.errors**2).mean())) if plan.errors.size else 1.0
    right = short_basis(plan.errors / unit, effort.scale, block=effort.block)
    left = short_basis(plan.weights[plan.setting] / unit, effort.scale, block=effort.block)
    project = null_projection(plan.weights, plan.errors)
    rng = np.random.Generator(np.random.Philox(key=0))
    yield _rounded(plan, plan.change, left, right, effort.scale / unit)
    while True:
        shift = project(rng.uniform(-1, 1, plan.change.shape))
        yield _rounded(plan, plan.change + shift, left, right, effort.scale / unit)


def _rounded(plan: Plan, real: Reals, left: Basis, right: Basis, scale: float) -> Whole:
    """Most columns by the lattice of the errors alone, the setters by the product of both.

    What the first leave of the outputs, the second make good.
    """
    change = real.T
    free = np.setdiff1d(np.arange(len(change)), plan.setting)
    low, high = (side[:, plan.moved].T for side in (plan.low - plan.values, plan.high - plan.values))
    whole = np.zeros_like(change)
    whole[free] = right.nearest(change[free])
    for row in free:
        whole[row] = into_box(whole[[row]], None, right, low[[row]], high[[row]])[0]
    owed = -scale * (plan.weights[free].T @ whole[free])
    rounded = nearest_in_product(left, right, change[plan.setting], owed)
    whole[plan.setting] = into_box(rounded, left, right, low[plan.setting], high[plan.setting])
    forged = plan.values.copy()
    forged[:, plan.moved] += whole.T
    inside = np.clip(forged, plan.low, plan.high)
    return Whole(inside, int((inside != forged).sum()), float((whole - change).std()), plan, left, right)

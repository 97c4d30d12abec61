"""The real-valued change nearest to a wanted one, inside two null spaces and a box."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

Reals = npt.NDArray[np.float64]
SWEEPS = 400
_WEIGHT = 2.0
_NEAR = 0.5
"""How far outside the box, in raw units, still counts as inside; rounding has its own margin."""
_ROUNDS = 40


def span(matrix: Reals, tolerance: float = 1e-10) -> Reals:
    """Orthonormal columns that span those of the matrix; as many as its rank."""
    left, values, _ = np.linalg.svd(matrix, full_matrices=False)
    return np.ascontiguousarray(left[:, values > tolerance * max(values.max(initial=0.0), 1e-300)])


def independent(matrix: Reals) -> Reals:
    """The matrix with as many columns as its rank and the same products' lengths: |v M| is kept for all v."""
    _, values, right = np.linalg.svd(matrix, full_matrices=False)
    kept: Reals = matrix @ right[values > 1e-10 * max(values.max(initial=0.0), 1e-300)].T
    return kept


def null_projection(weights: Reals, errors: Reals) -> Callable[[Reals], Reals]:
    """Projects P [b, d] onto P W = 0 and P'E = 0: (I - E E+) P (I - W W+).

    Paper 000, Proposition 2, without its Kronecker matrix: two thin products per call.
    """
    across, along = span(weights), span(errors)

    def project(change: Reals) -> Reals:
        change = change - (change @ across) @ across.T
        return change - along @ (along.T @ change)

    return project


def nearest_change(
    wanted: Reals, project: Callable[[Reals], Reals], low: Reals, high: Reals, *, sweeps: int = SWEEPS
) -> Reals:
    """min |P - wanted| with P in the projection's space and low <= P <= high, by alternating directions (ADMM).

    P is exactly in the space; it may leave the box where the two do not meet, or where the sweeps did not suffice.
    """
    inside, price = np.clip(project(wanted), low, high), np.zeros_like(wanted)
    change = inside
    for sweep in range(sweeps):
        change = project((wanted + _WEIGHT * (inside - price)) / (1 + _WEIGHT))
        inside = np.clip(change + price, low, high)
        price += change - inside
        if sweep % 20 == 19 and outside(change, low, high).max() < _NEAR:
            break
    return change


def outside(change: Reals, low: Reals, high: Reals) -> Reals:
    """How far each number is outside its bounds."""
    return np.maximum(np.maximum(low - change, change - high), 0)


def change_where_possible(
    wanted: Reals, weights: Reals, errors: Reals, low: Reals, high: Reals
) -> tuple[Reals, npt.NDArray[np.int64]]:
    """`nearest_change` of the columns that can keep to the box; which ones is found by leaving out the worst.

    Pixels that are dark in nearly every image cannot move at all, for instance. Returns the change of the columns
    that move, and which they are (none if nothing can).
    """
    active = np.arange(wanted.shape[1])
    for _ in range(_ROUNDS):
        if len(active) <= np.linalg.matrix_rank(weights):
            break
        bounds = low[:, active], high[:, active]
        change = nearest_change(wanted[:, active], null_projection(weights[active], errors), *bounds)
        worst = outside(change, *bounds).max(0)
        if worst.max() < 2 * _NEAR:
            return change, active
        drop = min(int((worst > _NEAR).sum()), max(1, len(active) // 8))
        active = np.sort(active[np.argsort(worst)[: len(active) - drop]])
    return np.zeros((len(wanted), 0)), active[:0]

"""Whole, non-negative counts that sum to K, nearest to an estimate; and how sure each of them is."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from trainwitness.core.errors import UsageError

Floats = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]


def whole_counts(estimate: Floats, total: int, weights: Floats | None = None) -> Counts:
    """The counts k >= 0 with sum `total` that minimise sum_i w_i (k_i - x_i)^2, exactly.

    The cost is separable and convex, so units are given out one by one where each costs least: unit j of class i
    costs w_i (2 (j - x_i) + 1). All units below one price are given at once, found by bisection; the rest go in
    order.
    """
    if total < 0 or not len(estimate) or not np.isfinite(estimate).all():
        raise UsageError(f"no counts of {len(estimate)} classes sum to {total}", hint="estimates must be finite")
    w = np.ones_like(estimate) if weights is None else np.maximum(weights, 1e-12)
    spread = float(np.abs(estimate).max()) + total + 1
    low, high = -2 * float(w.max()) * spread, 2 * float(w.max()) * spread
    while high - low > 1e-12 * max(1.0, abs(high), abs(low)):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if _given(estimate, w, middle).sum() <= total else (low, middle)
    counts = _given(estimate, w, low)
    while counts.sum() < total:
        counts[int(np.argmin(w * (2 * (counts - estimate) + 1)))] += 1
    return counts


def _given(estimate: Floats, weights: Floats, price: float) -> Counts:
    """How many units of each class cost less than `price`."""
    return np.maximum(0, np.ceil((price / weights - 1) / 2 + estimate)).astype(np.int64)


UNKNOWN = 2.0
"""The spread assumed where an estimate is no nearer to whole numbers than chance."""

LARGEST = 10.0
"""The largest spread that is told from larger ones; a count is then right with probability 0.04 at best."""


def spread_of(estimate: Floats) -> float:
    """The standard deviation of an estimate's errors, seen from how far it lies from whole numbers.

    For errors N(0, s^2) around whole numbers, the mean of cos(2 pi x) is exp(-2 pi^2 s^2). With C classes that mean
    is known to about 1 / sqrt(2 C), which is taken off. Counts below zero show errors of their own size.
    """
    doubt = 1 / math.sqrt(2 * len(estimate))
    level = float(np.cos(2 * math.pi * estimate).mean()) - doubt
    below = math.sqrt(float((np.minimum(estimate, 0) ** 2).mean()))
    if level <= doubt:
        return max(UNKNOWN, below)
    return max(math.sqrt(-math.log(level) / (2 * math.pi**2)), below)


def confidence(estimate: Floats, counts: Counts, spread: float | Floats | None = None) -> Floats:
    """For each class, the probability of its count among all whole numbers >= 0, if errors are N(0, spread^2)."""
    s = np.clip(spread_of(estimate) if spread is None else spread, 1e-3, LARGEST) * np.ones_like(estimate)
    reach = math.ceil(6 * float(s.max()))
    near = np.maximum(0, np.rint(estimate))[:, None] + np.arange(-reach, reach + 1)
    distance = ((near - estimate[:, None]) / s[:, None]) ** 2
    own = ((counts - estimate) / s) ** 2
    least = np.minimum(np.where(near >= 0, distance, np.inf).min(1), own)
    others = np.where(
        (near >= 0) & (near != counts[:, None]), np.exp(np.minimum(least[:, None] - distance, 0) / 2), 0.0
    ).sum(1)
    mine = np.exp((least - own) / 2)
    out: Floats = mine / (mine + others)
    return out

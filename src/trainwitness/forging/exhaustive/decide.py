"""Do two batches have the same gradient? Decided by whole numbers or by intervals, never by comparing floats."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from trainwitness.training.rational import Integers, RationalGradients

PRECISIONS = (256, 1024, 4096)
"""Bits of the interval arithmetic, one after the other until it decides."""

Answer = Literal["equal", "different", "undecided"]


@dataclass(frozen=True)
class Decision:
    """`equal` and `different` are proved; `gap` is the largest difference of a gradient sum's entry."""

    answer: Answer
    gap: float


def decide(gradients: RationalGradients, one: Sequence[int], other: Sequence[int]) -> Decision:
    """Compares the exact gradient sums of two batches of example numbers.

    The difference is  sum_s M_s p_s - r  with one softmax p_s per distinct logits s, a rational matrix M_s and a
    rational vector r. Where every M_s is 0 (the inputs are the same, or give the same), r = 0 decides exactly.
    Otherwise intervals around p_s show that some entry is not 0, with more and more bits.
    """
    rational, weights = _parts(gradients, one, other)
    if not weights:
        gap = max(abs(int(entry)) for entry in rational) / (gradients.classes * gradients.scale)
        return Decision("different" if rational.any() else "equal", gap)
    for bits in PRECISIONS:
        gap = _certain_gap(gradients, rational, weights, bits)
        if gap:
            return Decision("different", gap)
    return Decision("undecided", 0.0)


def _parts(
    gradients: RationalGradients, one: Sequence[int], other: Sequence[int]
) -> tuple[Integers, dict[int, Integers]]:
    """The rational part times the number of classes, and M_s by an input that has the logits s."""
    classes, factors = gradients.classes, gradients.factors
    rational = np.zeros(factors.shape[1], dtype=object)
    counts: Counter[int] = Counter()
    for sign, batch in ((1, one), (-1, other)):
        for example in batch:
            number, label = divmod(int(example), classes)
            rational = rational - sign * classes * factors[number][:, label]
            counts[number] += sign
    weights: dict[tuple[int, ...], tuple[int, Integers]] = {}
    for number, count in counts.items():
        if count:
            shape = gradients.shape_of(number)
            first, matrix = weights.get(shape, (number, 0 * factors[number]))
            weights[shape] = first, matrix + count * factors[number]
    left = {}
    for shape, (number, matrix) in weights.items():
        if not any(shape):  # all logits equal: p is 1 / classes
            rational = rational + matrix.sum(1)
        elif matrix.any():
            left[number] = matrix
    return rational, left


def _certain_gap(gradients: RationalGradients, rational: Integers, weights: dict[int, Integers], bits: int) -> float:
    """The largest lower bound of an entry's distance from 0; 0 if no entry is certain to differ from it."""
    from mpmath import iv, mp

    iv.prec = bits
    total: list[Any] = [iv.mpf(int(entry)) / gradients.classes for entry in rational]
    for number, matrix in weights.items():
        softmax = gradients.softmax_bounds(number, bits)
        for k, row in enumerate(matrix):
            for factor, p in zip(row, softmax, strict=True):
                if factor:
                    total[k] += iv.mpf(int(factor)) * p
    bounds = [max(mp.mpf(entry.a), -mp.mpf(entry.b)) for entry in total]
    return max(0.0, float(max(bounds) / gradients.scale))

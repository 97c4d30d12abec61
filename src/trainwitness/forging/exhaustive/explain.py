"""Why two batches have the same gradient, in words."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import combinations

import numpy as np

from trainwitness.training.rational import Integers, RationalGradients

NO_GRADIENT = "an input without gradient changes its label"
SAME_GRADIENT = "two inputs with the same gradient"
PARALLELOGRAM = "relabelling: a + d = b + c"
SUM = "relabelling: a + b = c"
CLASS_SUMS = "relabelling that keeps every class's sum"
REGIONS = "relabelling that keeps the sums in every activation region"
SEVERAL = "smaller collisions together"
OTHER = "no reason known"

Core = tuple[frozenset[int], frozenset[int]]


def explain(
    gradients: RationalGradients, inputs: Integers, one: Sequence[int], other: Sequence[int], smaller: set[Core]
) -> str:
    """The reason of a proved collision of disjoint batches; `smaller` has those of fewer examples."""
    if _contains(one, other, smaller):
        return SEVERAL
    classes = gradients.classes
    label = [{}, {}]  # type: list[dict[int, list[int]]]
    for side, batch in zip(label, (one, other), strict=True):
        for example in batch:
            side.setdefault(example // classes, []).append(example % classes)
    if {x: len(found) for x, found in label[0].items()} != {x: len(found) for x, found in label[1].items()}:
        return SAME_GRADIENT if len(one) == 1 else OTHER
    if len(one) == 1:
        return NO_GRADIENT
    return _relabelling(inputs, label[0], label[1])


def _relabelling(inputs: Integers, before: dict[int, list[int]], after: dict[int, list[int]]) -> str:
    moves: dict[tuple[int, int], list[Integers]] = defaultdict(list)
    sums: dict[int, Integers] = defaultdict(lambda: np.zeros(inputs.shape[1] + 1, dtype=np.int64))
    for number, labels in before.items():
        for old, new in zip(labels, after[number], strict=True):
            row = np.append(inputs[number], 1).astype(np.int64)  # the last entry counts
            moves[old, new].append(inputs[number])
            sums[old] += row
            sums[new] -= row
    sizes = sorted(len(moved) for moved in moves.values())
    balanced = not any(total[:-1].any() for total in sums.values())
    if balanced and len(moves) == 2 and sizes == [2, 2]:
        return PARALLELOGRAM
    if balanced and len(moves) == 2 and sizes == [1, 2]:
        return SUM
    if balanced:
        return CLASS_SUMS
    return REGIONS


def _contains(one: Sequence[int], other: Sequence[int], smaller: set[Core]) -> bool:
    return any(
        core(a, b) in smaller
        for size in range(1, len(one))
        for a in combinations(one, size)
        for b in combinations(other, size)
    )


def core(one: Sequence[int], other: Sequence[int]) -> Core:
    """A pair of batches as it is looked up, whichever comes first."""
    first, second = sorted((sorted(one), sorted(other)))
    return frozenset(first), frozenset(second)

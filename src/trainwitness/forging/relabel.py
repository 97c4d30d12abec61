"""relabel: the same inputs with other labels and exactly the same gradient.

Softmax regression's gradient knows the labels only by each class's count and sum of inputs. So examples a, d of one
class and b, c of another with a + d = b + c can exchange labels; so can two examples with the same input. Inside one
activation region of a ReLU network every layer is affine in the input, and the same holds.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from itertools import combinations

import numpy as np

from trainwitness.core.batch import Batch
from trainwitness.core.errors import UsageError
from trainwitness.core.seeds import random_bits
from trainwitness.forging.forger import Choice
from trainwitness.forging.problem import Problem
from trainwitness.tasks.domain import Array

Swap = tuple[tuple[int, ...], tuple[int, ...]]
"""Positions of one class and of another that exchange labels."""
LARGEST = 3
_SUBSETS = 2_000_000
_PRIME = 2**31 - 1
_SAME = 1e-9
"""Below this share of what other examples would change, in float64, a step counts as the same."""


def forge(problem: Problem, *, largest: int = LARGEST) -> Choice:
    """Exchanges labels wherever it leaves the step as it is; refused, with the reason, where it cannot."""
    inputs, labels = (tensor.numpy() for tensor in problem.stepper.task.dataset.fetch(problem.rows))
    whole = inputs.reshape(len(inputs), -1)
    if not np.issubdtype(whole.dtype, np.integer):
        raise UsageError("sums of real numbers are not compared", hint="relabel works on whole-number inputs")
    if independent(whole):
        raise UsageError(
            f"the batch's {len(whole)} inputs are linearly independent, so no two sums of them agree",
            hint="relabelling needs duplicates, or examples with a + d = b + c",
        )
    fine = problem.in_float64()
    limit = _SAME * fine.error(problem.batch_with(problem.pool[: len(problem.positions)]))
    best, moved, tried = labels, set[int](), 0
    for one, other in exchanges(whole, labels, largest):
        if moved & {*one, *other} or (tried and problem.late):
            continue
        candidate = best.copy()
        candidate[list(one)], candidate[list(other)] = labels[other[0]], labels[one[0]]
        tried += 1
        if fine.error(_batch(problem, inputs, candidate, {*moved, *one, *other})) <= limit:
            best, moved = candidate, {*moved, *one, *other}
    if not moved:
        raise UsageError(
            f"no exchange of up to {largest} labels keeps the step ({tried} sums of inputs agreed)",
            hint="behind hidden layers the examples must also share their activation region",
        )
    batch = _batch(problem, inputs, best, moved)
    return Choice(batch, gradients=tried * problem.batch.size, candidates=tried)


def _batch(problem: Problem, inputs: Array, labels: Array, moved: set[int]) -> Batch:
    places = sorted(moved)
    return problem.carrying(places, problem.pool[: len(places)], inputs[places], labels[places])


def exchanges(inputs: Array, labels: Array, largest: int) -> Iterator[Swap]:
    """Sets of up to `largest` positions of two classes whose inputs have the same sum, smallest first.

    Sums are compared by one random combination of their numbers modulo 2^64, and then number by number.
    """
    key = random_bits(0, inputs.shape[1])
    marks = (inputs.astype(np.int64).astype(np.uint64) * key).sum(1, dtype=np.uint64)
    classes = [np.flatnonzero(labels == label).tolist() for label in np.unique(labels)]
    for size in range(1, largest + 1):
        if sum(math.comb(len(members), size) for members in classes) > _SUBSETS:
            return
        seen: dict[int, list[tuple[int, ...]]] = defaultdict(list)
        for members in classes:
            for chosen in combinations(members, size):
                mark = int(marks[list(chosen)].sum(dtype=np.uint64))
                for other in seen[mark]:
                    if labels[other[0]] != labels[chosen[0]] and _same_sum(inputs, other, chosen):
                        yield other, chosen
                seen[mark].append(chosen)


def _same_sum(inputs: Array, one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    totals = (inputs[list(places)].astype(np.int64).sum(0) for places in (one, other))
    return bool(np.array_equal(*totals))


def independent(rows: Array) -> bool:
    """Whether whole-number rows are certainly linearly independent: they are modulo a prime."""
    left = rows.astype(np.int64) % _PRIME
    if len(left) > left.shape[1]:
        return False
    for k in range(len(left)):
        pivots = np.flatnonzero(left[k])
        if not len(pivots):
            return False
        column = pivots[0]
        left[k] = left[k] * pow(int(left[k, column]), -1, _PRIME) % _PRIME
        below = np.flatnonzero(left[k + 1 :, column]) + k + 1
        left[below] = (left[below] - left[below, column][:, None] * left[k]) % _PRIME
    return True

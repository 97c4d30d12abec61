"""The search over all batches, against brute force and counts by hand."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import combinations
from math import comb

import numpy as np
import pytest
import torch
from torch import nn

from trainwitness.core.errors import UsageError
from trainwitness.forging.exhaustive.decide import decide
from trainwitness.forging.exhaustive.explain import NO_GRADIENT, PARALLELOGRAM, SAME_GRADIENT, SEVERAL, SUM
from trainwitness.forging.exhaustive.join import Join, collisions
from trainwitness.forging.exhaustive.keys import make_keys
from trainwitness.forging.exhaustive.search import Search
from trainwitness.tasks.initial import initialise
from trainwitness.training.rational import all_inputs, rational_gradients


def softmax(pixels: int = 4, *, bias: bool = True, seed: int = 0) -> nn.Module:
    model = nn.Linear(pixels, 3, bias=bias)
    initialise(model, seed)
    return model


def brute_force(search: Search, size: int) -> int:
    """Pairs of batches with the same gradient: every pair of float64 gradients, equal to 12 digits."""
    gradients = []
    for number in range(len(search.inputs)):
        p = np.array(search.gradients.softmax(number, 60), dtype=float) / 2.0**60
        for label in range(3):
            e = p - np.eye(3)[label]
            gradients.append(search.gradients.factors[number].astype(float) @ e / search.gradients.scale)
    groups: Counter[tuple[float, ...]] = Counter()
    for batch in combinations(range(len(gradients)), size):
        groups[tuple(np.round(sum(gradients[k] for k in batch), 11) + 0.0)] += 1
    return sum(comb(count, 2) for count in groups.values())


@pytest.mark.parametrize("bias", [True, False])
def test_every_pair_is_found_that_brute_force_finds(bias: bool) -> None:
    search = Search(softmax(3, bias=bias), [0, 255], 3)
    for size in (1, 2, 3, 4):
        assert search.pairs(size) == brute_force(search, size), size


def test_a_relu_network_with_dead_inputs_against_brute_force() -> None:
    model = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 3))
    initialise(model, 0)
    with torch.no_grad():
        model[0].bias -= 0.3
    search = Search(model, [0, 127, 255], 2)
    assert search.pairs(2) == brute_force(search, 2) > 0
    assert search.cores(1).reasons[SAME_GRADIENT] > 0


def test_the_counts_at_two_grey_levels() -> None:
    """4 pixels, 3 classes, with bias: none up to 3, then one per parallelogram of the cube and pair of classes."""
    search = Search(softmax(), [0, 255], 4)
    assert [search.pairs(size) for size in (1, 2, 3)] == [0, 0, 0]
    cube = all_inputs([0, 1], 4)
    by_sum = defaultdict(int)
    for a, b in combinations(cube, 2):
        by_sum[tuple(a + b)] += 1
    parallelograms = sum(comb(count, 2) for count in by_sum.values())
    assert search.pairs(4) == 3 * parallelograms == 300
    assert search.cores(4).reasons == {PARALLELOGRAM: 300}
    assert search.pairs(5) == 300 * (48 - 8) == 12_000


def test_without_bias_the_dark_input_and_sums_collide() -> None:
    search = Search(softmax(bias=False), [0, 255], 4)
    assert search.cores(1).reasons == {NO_GRADIENT: 3}
    assert search.cores(2).equal == 0
    # a + b = c with disjoint supports that are not empty, and two of three classes
    sums = sum(1 for a, b in combinations(all_inputs([0, 1], 4), 2) if a.any() and b.any() and (a + b).max() < 2)
    assert search.cores(3).reasons == {SUM: 3 * sums}
    assert search.cores(4).reasons[SEVERAL] > 0
    assert sum(search.cores(4).answers.values()) == search.cores(4).equal


def test_a_target_finds_its_doubles_at_every_size() -> None:
    search = Search(softmax(), [0, 255], 4)
    # 0 + 3 = 1 + 2 in the cube: examples are 3 input + label
    parallelogram = [3 * 0 + 0, 3 * 1 + 1, 3 * 2 + 1, 3 * 3 + 0]
    assert search.doubles(parallelogram).equal == 1
    assert search.doubles([*parallelogram, 47]).equal == 1
    assert search.doubles([0, 4, 7]).equal == 0
    found = search.doubles([*parallelogram, 47])
    assert found.examples[PARALLELOGRAM] == ([0, 4, 7, 9], [1, 3, 6, 10])
    with pytest.raises(UsageError, match="batches of 6"):
        search.doubles([0, 1, 2, 3, 4, 5])
    assert len(set(map(tuple, (search.target(5, k) for k in range(20))))) == 20


def test_ranges_miss_nothing() -> None:
    join = Join(make_keys(rational_gradients(softmax(), all_inputs([0, 255], 4))))
    whole, cut = (
        {(tuple(sorted(a)), tuple(sorted(b))) for ones, others in collisions(join, 4, at_once=at_once)
         for a, b in zip(ones.tolist(), others.tolist(), strict=True)}
        for at_once in (10**7, 5_000)
    )  # fmt: skip
    assert {frozenset(pair) for pair in whole} == {frozenset(pair) for pair in cut}
    assert len(whole) == 300


def test_near_collisions_are_told_from_collisions() -> None:
    """Weights so small that gradients of other inputs agree to 40 digits: floats cannot tell, intervals can."""
    model = nn.Linear(2, 3)
    with torch.no_grad():
        model.weight.copy_(torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]) * 2.0**-140)
        model.bias.zero_()
    gradients = rational_gradients(model, all_inputs([0, 51, 102, 153], 2))
    # inputs (0, 51), (102, 51), twice (51, 51): the same sums, so the same gradient but for 2^-140
    one, other = [3 * 1, 3 * 9, 3 * 5 + 1], [3 * 5, 3 * 5, 3 * 5 + 1]
    decision = decide(gradients, one, other)
    assert decision.answer == "different"
    assert 0 < decision.gap < 1e-40
    assert decide(gradients, one, list(reversed(one))).answer == "equal"


def test_the_same_logits_are_recognised() -> None:
    """A weight of zero makes inputs that differ there indistinguishable to the softmax, not to the gradient."""
    model = nn.Linear(2, 3)
    initialise(model, 0)
    with torch.no_grad():
        model.weight[:, 1] = 0
    gradients = rational_gradients(model, all_inputs([0, 127, 254], 2))
    # (q, 0) + (q, 254) = (q, 127) + (q, 127), all of one class
    one, other = [3 * 3, 3 * 5], [3 * 4, 3 * 4]
    assert decide(gradients, one, other).answer == "equal"
    assert decide(gradients, one, [3 * 4, 3 * 5]).answer == "different"
    assert decide(gradients, one, [3 * 4, 3 * 4 + 1]).answer == "different"

"""The certificate against brute force on tiny pools, and the rank against an independent elimination."""

from __future__ import annotations

from itertools import combinations_with_replacement
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import tiny_task
from trainwitness import Dataset, Stepper, Trace, build_task, record
from trainwitness.core.errors import UsageError
from trainwitness.forging.binary_rank import binary_rank, pack
from trainwitness.forging.certificate import certify, certify_step, least_bits
from trainwitness.training.per_example import PerExample


def plain_rank(bits: np.ndarray) -> int:
    """Elimination with Python integers as rows."""
    rank, rows = 0, [int("".join(map(str, row)), 2) if len(row) else 0 for row in bits.tolist()]
    while rows:
        row = rows.pop()
        if row:
            rank += 1
            low = row & -row
            rows = [other ^ row if other & low else other for other in rows]
    return rank


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 70), st.integers(1, 200), st.sampled_from([0.02, 0.1, 0.5]))
def test_rank_of_any_matrix(seed: int, rows: int, columns: int, share: float) -> None:
    bits = (np.random.default_rng(seed).random((rows, columns)) < share).astype(np.uint8)
    assert binary_rank(pack(bits)) == plain_rank(bits)


def test_rank_of_a_product_is_at_most_the_inner_size() -> None:
    rng = np.random.default_rng(0)
    bits = (rng.integers(0, 2, (300, 37)) @ rng.integers(0, 2, (37, 400)) % 2).astype(np.uint8)
    assert binary_rank(pack(bits)) == 37
    assert binary_rank(pack(np.eye(130, dtype=np.uint8)[::-1])) == 130
    assert binary_rank(pack(np.zeros((5, 9), np.uint8))) == 0


def fixed_point(gradients: PerExample, rows: list[int], bits: int) -> np.ndarray:
    return np.floor(gradients.matrix(rows).double().numpy() * 2.0**bits).astype(np.int64)


def test_a_certified_pool_has_no_two_multisets_with_the_same_sum() -> None:
    stepper = Stepper(tiny_task())
    gradients = PerExample(stepper, stepper.state())
    rows = list(range(8))
    for bits in (2, 8, 26):
        found = certify(gradients, rows, fraction_bits=bits)
        whole = fixed_point(gradients, rows, bits)
        sums = [tuple(whole[list(c)].sum(0)) for c in combinations_with_replacement(range(8), 4)]
        if found.holds:
            assert len(set(sums)) == len(sums)
    assert certify(gradients, rows).holds
    assert found.rank == plain_rank((fixed_point(gradients, rows, 26) & 1).astype(np.uint8))


def test_a_pool_with_a_relation_is_not_certified() -> None:
    """Two rows with the same content have the same gradient."""
    data = tiny_task().dataset
    inputs, labels = data.inputs.copy(), data.labels.copy()
    inputs[5], labels[5] = inputs[2], labels[2]
    stepper = Stepper(tiny_task(dataset=Dataset("twins", inputs, labels, data.domain, data.prepare)))
    found = certify(PerExample(stepper, stepper.state()), [1, 2, 5, 7])
    assert not found.holds
    assert found.rank == 3


def test_the_last_bits_are_those_of_the_fixed_point() -> None:
    stepper = Stepper(build_task("softmax-digits"))
    gradients = PerExample(stepper, stepper.state())
    rows = list(range(20))
    expected = fixed_point(gradients, rows, 26) & 1
    found = least_bits(gradients, rows, 26, gradients.width, seed=0)
    assert sorted(map(tuple, expected.T.tolist())) == sorted(map(tuple, found.T.tolist()))
    narrow = least_bits(gradients, rows, 26, 100, seed=0)
    assert np.array_equal(narrow, found[:, :100])
    assert narrow.any(0).mean() > 0.5  # parameters without gradient come last


def test_bad_pools(tmp_path: Path) -> None:
    task = tiny_task()
    stepper = Stepper(task)
    gradients = PerExample(stepper, stepper.state())
    with pytest.raises(UsageError, match="twice"):
        certify(gradients, [1, 1])
    with pytest.raises(UsageError, match="16 examples and 15 parameters"):
        certify(gradients, list(range(16)))
    record(task, tmp_path / "t", steps=3)
    trace = Trace.open(tmp_path / "t")
    assert certify_step(trace, stepper, 1, pool=8).examples == 8
    for step, pool in ((1, 7), (1, 41), (3, 10)):
        with pytest.raises(UsageError):
            certify_step(trace, stepper, step, pool=pool)


@pytest.mark.real_data
def test_a_pool_of_mnist_for_lenet(data_folder: Path) -> None:
    stepper = Stepper(build_task("lenet-mnist", data=data_folder))
    found: Any = certify(PerExample(stepper, stepper.state()), list(range(1000)))
    assert found.holds
    assert found.columns < found.parameters

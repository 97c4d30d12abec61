"""Elementary functions bit by bit: the same operations in Python's own floats give the same numbers."""

from __future__ import annotations

import math

import numpy as np
import torch

from trainwitness.training.exact.elementary import square_root


def _by_hand(x: float) -> float:
    """Heron's iteration in Python's floats, which are the processor's, one operation at a time."""
    if x == 0:
        return 0.0
    mantissa, exponent = math.frexp(x)
    odd = exponent & 1
    m = mantissa * 2.0 if odd else mantissa
    root = (m + 1.0) * 0.5
    for _ in range(5):
        root = (root + m / root) * 0.5
    return root * 2.0 ** ((exponent - odd) >> 1)


def test_a_square_root_is_made_of_operations_that_round_in_one_way() -> None:
    rng = np.random.default_rng(0)
    some = np.concatenate([
        rng.random(20_000) * 10.0 ** rng.integers(-300, 300, 20_000),
        np.arange(300.0) ** 2,
        [0.0, 5e-324, 2.0**-1022, 1e-8, 1.0, 2.0, 3.0, 4.0, 1.7e308],
    ])  # fmt: skip
    found = square_root(torch.from_numpy(some)).numpy()
    assert found.tobytes() == np.array([_by_hand(float(x)) for x in some]).tobytes()
    nearest = np.sqrt(some)
    assert (np.abs(found - nearest) <= np.spacing(nearest)).all()
    assert np.array_equal(found[20_000:20_300], np.arange(300.0))

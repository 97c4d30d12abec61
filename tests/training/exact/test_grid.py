"""Grids: rounding is to the nearest, limbs lose nothing, and sums on a grid do not depend on their order."""

from __future__ import annotations

from fractions import Fraction

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from trainwitness.core.errors import UsageError
from trainwitness.training.exact.grid import activation_bits, joined, room, rounded, top, write_limbs
from trainwitness.training.exact.sums import batch_sum, inner_sum, product
from trainwitness.training.exact.witness import ExactOverflow, Witness


def noise(*shape: int, seed: int = 0, spread: float = 3.0) -> torch.Tensor:
    """Values over many orders of magnitude."""
    generator = torch.Generator().manual_seed(seed)
    one, other = (torch.randn(shape, generator=generator, dtype=torch.float64) for _ in range(2))
    return one * torch.exp(other * spread)


def near(x: torch.Tensor, bits: int) -> torch.Tensor:
    return rounded(x, bits, top(x, Witness()))


@pytest.mark.parametrize(("value", "expected"), [(1.0, 1.0), (1.999, 1.0), (2.0, 2.0), (0.3, 0.25), (0.0, 2.0**-200)])
def test_top_is_the_power_of_two_below(value: float, expected: float) -> None:
    assert top(torch.tensor([-value, value / 2], dtype=torch.float64), Witness()).item() == expected


@settings(max_examples=40, deadline=None)
@given(st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=8), st.integers(2, 40))
def test_rounding_is_to_the_nearest_with_ties_to_even(values: list[float], bits: int) -> None:
    x = torch.tensor(values, dtype=torch.float64)
    unit = Fraction(top(x, Witness()).item()) * Fraction(2) ** (1 - bits)
    found = near(x, bits)
    for value, found_one in zip(values, found.tolist(), strict=True):
        assert Fraction(found_one) == round(Fraction(value) / unit) * unit
        assert abs(Fraction(found_one) / unit) <= 2**bits


def test_limbs_add_up_to_all_but_the_last_bits() -> None:
    x = noise(50, 7)
    slots = torch.empty(3, *x.shape, dtype=torch.float64)
    write_limbs(x, 12, list(slots), top(x, Witness()))
    unit = top(x, Witness()).item() * 2.0 ** (1 - 36)
    assert (joined(slots) - x).abs().max() <= unit / 2
    assert ((slots[1].abs() / (unit * 2**12)) <= 2**12).all()


def test_sums_on_a_grid_have_no_order() -> None:
    x, w = noise(5000, 6), noise(5000, 4, seed=1)
    shuffled = torch.randperm(5000, generator=torch.Generator().manual_seed(2))
    one, other = near(x, 18), near(w, 22)
    assert torch.equal(one.T @ other, one[shuffled].T @ other[shuffled])
    assert not torch.equal(x.T @ w, x[shuffled].T @ w[shuffled]), "the test would not notice rounding"
    exact = sum((Fraction(a) * Fraction(b) for a, b in zip(one[:, 0].tolist(), other[:, 0].tolist(), strict=True)))
    assert Fraction((one.T @ other)[0, 0].item()) == exact


def test_batch_sums_are_kept_unrounded() -> None:
    witness, errors = Witness(), noise(3000, 2, spread=6)
    found = batch_sum(errors, (0,), witness, witness.call(), "bias")
    kept = witness.sums[0, "bias"]
    exact = sum(map(Fraction, errors[:, 0].tolist()))
    assert abs(sum(map(Fraction, kept[:, 0].tolist())) - exact) <= 3000 * Fraction(errors.abs().max().item()) / 2**36
    assert torch.allclose(found, errors.sum(0))


def test_inner_sums_have_a_grid_each() -> None:
    x = noise(10, 300) * torch.logspace(-9, 9, 10, dtype=torch.float64)[:, None]
    found = inner_sum(x, (1,), Witness())
    assert (
        torch.allclose(found, x.sum(1, keepdim=True), rtol=0, atol=0)
        or ((found - x.sum(1, keepdim=True)).abs() <= 300 * x.abs().amax(1, keepdim=True) * 2.0**-43).all()
    )
    assert torch.equal(found, inner_sum(x.flip(1), (1,), Witness()))


def test_long_products_are_cut_into_exact_pieces() -> None:
    left, right = near(noise(3, 20_000), 18), near(noise(20_000, 2, seed=4), 22)
    pieces = [left[:, k : k + 8192] @ right[k : k + 8192] for k in (0, 8192, 16384)]
    assert torch.equal(product(left, right), (pieces[0] + pieces[1]) + pieces[2])


def test_room_leaves_place_for_the_terms() -> None:
    assert room(1) == 50
    assert [room(100, 18), room(128, 18), room(129, 18)] == [28, 28, 27]
    with pytest.raises(UsageError, match="exact sum"):
        room(1 << 40, 18)


@pytest.mark.parametrize("value", [float("inf"), float("nan"), 2.0**201])
def test_a_range_that_is_exceeded_raises(value: float) -> None:
    witness = Witness()
    top(torch.tensor([1.0, value], dtype=torch.float64), witness)
    with pytest.raises(ExactOverflow, match="too large"):
        witness.check()


@pytest.mark.parametrize(
    ("terms", "lines", "bits"), [(14, 1000, 24), (400, 100, 22), (25, 78_400, 18), (8192, 100, 18), (50_000, 10, 18)]
)
def test_activations_get_the_bits_that_both_sums_leave(terms: int, lines: int, bits: int) -> None:
    assert activation_bits(terms, lines) == bits
    assert bits + 22 + (min(terms, 8192) - 1).bit_length() <= 53
    assert room(lines, bits) >= 18

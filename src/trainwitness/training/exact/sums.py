"""Sums and products that are exact in any order."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from trainwitness.training.exact.grid import TERMS, joined, limb_count, room, rounded, top, write_limbs
from trainwitness.training.exact.witness import Witness


def product(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """left @ right for operands of ACTIVATION_BITS and WEIGHT_BITS; pieces of many terms are added in order."""
    terms = left.shape[-1]
    if terms <= TERMS:
        return left @ right
    total = left[..., :TERMS] @ right[..., :TERMS, :]
    for start in range(TERMS, terms, TERMS):
        total = total + left[..., start : start + TERMS] @ right[..., start : start + TERMS, :]
    return total


def inner_sum(x: torch.Tensor, over: Sequence[int], witness: Witness) -> torch.Tensor:
    """The sum over some dimensions, kept with size 1, each result on a grid of its own."""
    terms = _size(x, over)
    return rounded(x, room(terms), top(x, witness, over)).sum(tuple(over), keepdim=True)


def mean(x: torch.Tensor, over: Sequence[int], witness: Witness) -> torch.Tensor:
    """The mean over some dimensions, kept with size 1."""
    return inner_sum(x, over, witness) * (1 / _size(x, over))


def batch_sum(errors: torch.Tensor, over: Sequence[int], witness: Witness, call: int, part: str) -> torch.Tensor:
    """A parameter's gradient that is a plain sum of errors over examples: kept unrounded, then joined."""
    over = [dimension % errors.dim() for dimension in over]
    bits = room(_size(errors, over))
    slots = errors.new_empty((limb_count(bits), *errors.shape))
    largest = top(errors, witness)
    write_limbs(errors, bits, list(slots), largest)
    witness.keep(call, f"{part} grid", largest)
    return joined(witness.keep(call, part, slots.sum([dimension + 1 for dimension in over])))


def _size(x: torch.Tensor, over: Sequence[int]) -> int:
    count = 1
    for dimension in over:
        count *= x.shape[dimension]
    return count

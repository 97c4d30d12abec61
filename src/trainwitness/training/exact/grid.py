"""Grids: rounding tensors so that their sums of products are exact in any order.

A float64 tensor rounded to multiples of a power of two, at most 2^B of them on either side of zero, holds B-bit
integers. A product of such a tensor with one of C bits, summed over K terms, stays within 2^(B + C) K units, and
while that is at most 2^53 every partial sum is a float64 without rounding: the order of summation, fused
multiply-adds and threads cannot change a bit. The unit is a power of two taken from the tensor's largest magnitude; a
maximum has no order either. docs/exact-arithmetic.md has the whole argument.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from trainwitness.core.errors import UsageError
from trainwitness.training.exact.witness import Witness

SUM_BITS = 53
"""A float64 holds every whole number up to 2^53."""
ACTIVATION_BITS, WEIGHT_BITS = 18, 22
"""Bits of the operands of forward products; activations may have more (`activation_bits`)."""
MOST_ACTIVATION_BITS = 24
TERMS = 1 << (SUM_BITS - ACTIVATION_BITS - WEIGHT_BITS)
"""Longer forward sums are cut into pieces of this many terms, added in a fixed order."""
ERROR_BITS = 36
"""Bits of an error, below the largest of its tensor, that a gradient sum keeps at least."""
_LEAST_BITS = 8
_SMALLEST = 2.0**-200
"""Grids do not get finer than this, so that no product falls below what float64 holds."""
_EXPONENT = 0x7FF0000000000000


def room(terms: int, other_bits: int = 0) -> int:
    """Bits left for one operand of a sum of `terms` products with operands of `other_bits`."""
    bits = SUM_BITS - other_bits - max(terms - 1, 0).bit_length()
    if bits < _LEAST_BITS:
        raise UsageError(f"an exact sum of {terms:,} terms", hint="use a smaller batch or micro-batches")
    return min(bits, SUM_BITS - 3)


def activation_bits(terms: int, lines: int) -> int:
    """Bits of an activation that is summed over `terms` forward, and over `lines` in the gradient.

    As many as the forward sum allows and the gradient sum does with two limbs: where data is finer than 2^-18 of its
    largest value (Adult's weights are), 18 bits would not tell rows apart.
    """
    forward = SUM_BITS - WEIGHT_BITS - (terms - 1).bit_length()
    backward = SUM_BITS - ERROR_BITS // 2 - (lines - 1).bit_length()
    return max(ACTIVATION_BITS, min(MOST_ACTIVATION_BITS, forward, backward))


def top(x: torch.Tensor, witness: Witness, over: Sequence[int] | None = None) -> torch.Tensor:
    """The largest power of two not above the largest magnitude: of the whole tensor, or `over` some dimensions."""
    if over is None:
        low, high = torch.aminmax(x)
        largest = torch.maximum(-low, high)
    else:
        largest = x.abs().amax(tuple(over), keepdim=True)
    witness.saw(largest)
    return largest.clamp_min(_SMALLEST).view(torch.int64).bitwise_and(_EXPONENT).view(torch.float64)


def unit(largest: torch.Tensor, bits: int) -> torch.Tensor:
    """The grid's spacing: 2^(1 - bits) of `top`, so that nothing is more than 2^bits units."""
    return largest * 2.0 ** (1 - bits)


def rounded(x: torch.Tensor, bits: int, largest: torch.Tensor) -> torch.Tensor:
    """`x` to the nearest multiple (ties to even) of 2^(1 - bits) times its `top`: at most 2^bits units each.

    Adding 1.5 x 2^52 units pushes everything below one unit out of the float64; subtracting it again is exact.
    """
    pushed = largest * (1.5 * 2.0 ** (SUM_BITS - bits))
    return (x + pushed).sub_(pushed)


def limb_count(bits: int) -> int:
    """How many limbs of `bits` keep `ERROR_BITS`."""
    return math.ceil(ERROR_BITS / bits)


def write_limbs(x: torch.Tensor, bits: int, slots: Sequence[torch.Tensor], largest: torch.Tensor) -> None:
    """`x` as a sum of tensors on finer and finer grids, `bits` each, written into `slots`; the first is the coarsest.

    `largest` is its `top`. What is left after one limb, x minus its rounding, is exact, so nothing is lost but what
    lies below the last limb.
    """
    rest, last = x, slots[-1]
    for number, slot in enumerate(slots, start=1):
        pushed = largest * (1.5 * 2.0 ** (SUM_BITS - bits * number))
        torch.add(rest, pushed, out=slot)
        slot.sub_(pushed)
        if slot is not last:
            rest = torch.sub(rest, slot, out=last)


def joined(limbs: torch.Tensor) -> torch.Tensor:
    """The limbs' sum, added from the finest: rounded at most as often as there are limbs, the same everywhere."""
    *coarser, total = limbs.unbind(0)
    for limb in reversed(coarser):
        total = limb + total
    return total

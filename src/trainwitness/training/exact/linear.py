"""Linear layers and matrix products."""

from __future__ import annotations

from typing import Any

import torch

from trainwitness.training.exact.grid import (
    SUM_BITS,
    WEIGHT_BITS,
    activation_bits,
    joined,
    limb_count,
    room,
    rounded,
    top,
    unit,
    write_limbs,
)
from trainwitness.training.exact.sums import product
from trainwitness.training.exact.witness import Operands, Witness

Gradients = tuple[torch.Tensor | None, ...]


class Linear(torch.autograd.Function):
    """x W' + c.

    The gradient by W is a sum over examples, whose errors differ by many orders of magnitude: they are cut into
    limbs, so that a small one does not vanish beside a large one. The gradient by x is a sum within one example,
    which has a grid of its own.
    """

    @staticmethod
    def forward(
        ctx: Any, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, witness: Witness
    ) -> torch.Tensor:
        ctx.witness, ctx.call, ctx.shape, ctx.bias = witness, witness.call(), x.shape, bias is not None
        lines = x.reshape(-1, x.shape[-1])
        ctx.largest, ctx.bits = top(x, witness), activation_bits(lines.shape[1], len(lines))
        rows = rounded(lines, ctx.bits, ctx.largest)
        near = rounded(weight, WEIGHT_BITS, top(weight, witness))
        ctx.save_for_backward(rows, near)
        out = product(rows, near.T)
        if bias is not None:
            out.add_(bias)
        return out.view(*x.shape[:-1], -1)

    @staticmethod
    def backward(ctx: Any, *errors: torch.Tensor) -> Gradients:
        rows, weight = ctx.saved_tensors
        witness: Witness = ctx.witness
        error = errors[0].reshape(len(rows), -1)
        count, width = error.shape
        by_input = by_weight = by_bias = largest = None
        if ctx.needs_input_grad[0]:
            tops = top(error, witness, (1,))
            by_input = (rounded(error, room(width, WEIGHT_BITS), tops) @ weight).view(ctx.shape)
            largest = tops.amax()
        if ctx.needs_input_grad[1] or ctx.needs_input_grad[2]:
            bits = room(count, ctx.bits)
            limbs = limb_count(bits)
            slots = error.new_empty((count, limbs, width))
            largest = top(error, witness) if largest is None else largest
            write_limbs(error, bits, slots.unbind(1), largest)
            witness.keep(ctx.call, "grids", torch.stack([ctx.largest, largest]))
            if witness.capture:
                finest = unit(largest, bits * limbs)
                witness.operands[ctx.call] = Operands(slots[:, -1], finest, rows, unit(ctx.largest, ctx.bits))
            sums = _crossed(slots.view(count, -1), rows).view(limbs, width, -1)
            by_weight = joined(witness.keep(ctx.call, "weight", sums))
            if ctx.bias:
                by_bias = joined(witness.keep(ctx.call, "bias", slots.sum(0)))
        return by_input, by_weight, by_bias, None


def _crossed(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """left' right, with the narrower of the two in front, which libraries compute faster."""
    return (right.T @ left).T.contiguous() if right.shape[1] < left.shape[1] else left.T @ right


class Matmul(torch.autograd.Function):
    """Products of matrices within examples: attention's scores and mixtures."""

    @staticmethod
    def forward(ctx: Any, left: torch.Tensor, right: torch.Tensor, witness: Witness) -> torch.Tensor:
        ctx.witness = witness
        ctx.save_for_backward(left, right)
        return _within(left, right, witness)

    @staticmethod
    def backward(ctx: Any, *errors: torch.Tensor) -> Gradients:
        left, right = ctx.saved_tensors
        by_left = _within(errors[0], right.mT, ctx.witness)
        return by_left, _within(left.mT, errors[0], ctx.witness), None


def _within(left: torch.Tensor, right: torch.Tensor, witness: Witness) -> torch.Tensor:
    """left @ right, half of the bits each, every matrix on a grid of its own."""
    bits = (SUM_BITS - (left.shape[-1] - 1).bit_length()) // 2
    one, other = (rounded(x, bits, top(x, witness, (-2, -1))) for x in (left, right))
    return one @ other

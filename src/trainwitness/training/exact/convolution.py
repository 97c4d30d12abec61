"""Two-dimensional convolution: every window copied into a column, and one exact matrix product.

No library convolution is called: those may choose FFT or Winograd, whose intermediate values are rounded.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from trainwitness.training.exact.grid import (
    WEIGHT_BITS,
    activation_bits,
    joined,
    limb_count,
    room,
    rounded,
    top,
    write_limbs,
)
from trainwitness.training.exact.linear import Gradients
from trainwitness.training.exact.sums import product
from trainwitness.training.exact.windows import Windows
from trainwitness.training.exact.witness import Witness


class Shape(NamedTuple):
    """How windows lie, and in how many groups the channels are."""

    windows: Windows
    groups: int


class Convolution(torch.autograd.Function):
    """Channels lie outermost inside ([channel, example, row, column]), so that all examples are one product."""

    @staticmethod
    def forward(
        ctx: Any,
        x: torch.Tensor,
        weight: torch.Tensor,
        bias: torch.Tensor | None,
        shape: Shape,
        witness: Witness,
    ) -> torch.Tensor:
        ctx.witness, ctx.call, ctx.shape, ctx.bias = witness, witness.call(), shape, bias is not None
        places = shape.windows.counts(*x.shape[2:])
        ctx.bits = activation_bits(weight[0].numel(), len(x) * places[0] * places[1])
        ctx.largest = top(x, witness)
        near = rounded(x, ctx.bits, ctx.largest).transpose(0, 1)
        kernel = rounded(weight, WEIGHT_BITS, top(weight, witness))
        ctx.save_for_backward(near, kernel)
        columns = _columns(near, shape)
        out = _together([product(a, b) for a, b in zip(_grouped(kernel, shape), columns, strict=True)])
        out = out.view(len(kernel), near.shape[1], *places)
        if bias is not None:
            out.add_(bias.view(-1, 1, 1, 1))
        return out.transpose(0, 1)

    @staticmethod
    def backward(ctx: Any, *errors: torch.Tensor) -> Gradients:
        near, kernel = ctx.saved_tensors
        witness: Witness = ctx.witness
        shape: Shape = ctx.shape
        error = errors[0].transpose(0, 1)
        by_input = by_weight = by_bias = largest = None
        if ctx.needs_input_grad[0]:
            tops = top(error, witness, (0, 2, 3))
            by_input = _by_input(error, kernel, near.shape, shape, tops).transpose(0, 1)
            largest = tops.amax()
        if ctx.needs_input_grad[1] or ctx.needs_input_grad[2]:
            largest = top(error, witness) if largest is None else largest
            witness.keep(ctx.call, "grids", torch.stack([ctx.largest, largest]))
            sums, plain = _sums(error, near, shape, largest, ctx.bits)
            sums = witness.keep(ctx.call, "weight", sums.view(-1, *kernel.shape))
            by_weight = joined(sums)
            if ctx.bias:
                by_bias = joined(witness.keep(ctx.call, "bias", plain))
        return by_input, by_weight, by_bias, None, None


def _columns(near: torch.Tensor, shape: Shape) -> tuple[torch.Tensor, ...]:
    """For each group: [its channels x window, positions of all examples]."""
    spread = shape.windows.spread(near)
    return spread.reshape(spread.shape[:3].numel(), -1).chunk(shape.groups)


def _grouped(kernel: torch.Tensor, shape: Shape) -> tuple[torch.Tensor, ...]:
    """For each group: [its outputs, its channels x window]."""
    return kernel.flatten(1).chunk(shape.groups)


def _together(groups: list[torch.Tensor]) -> torch.Tensor:
    """One below the other; a single one as it is, without a copy."""
    return groups[0] if len(groups) == 1 else torch.cat(groups)


def _by_input(
    error: torch.Tensor, kernel: torch.Tensor, size: torch.Size, shape: Shape, tops: torch.Tensor
) -> torch.Tensor:
    """Each example's errors on a grid of their own, through the kernel, added up where windows overlap, in order."""
    near = rounded(error, room(len(kernel) // shape.groups, WEIGHT_BITS), tops)
    groups = near.reshape(len(kernel), -1).chunk(shape.groups)
    columns = _together([a.T @ b for a, b in zip(_grouped(kernel, shape), groups, strict=True)])
    return shape.windows.gather(columns.view(size[0], *shape.windows.size, *near.shape[1:]), size)


def _sums(
    error: torch.Tensor, near: torch.Tensor, shape: Shape, largest: torch.Tensor, near_bits: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """The limbs of the gradients by kernel and bias: sums over all positions of all examples."""
    columns = _columns(near, shape)
    count = error[0].numel()
    bits = room(count, near_bits)
    limbs = limb_count(bits)
    slots = torch.empty((limbs, *error.shape), dtype=error.dtype, device=error.device)
    write_limbs(error, bits, slots.unbind(0), largest)
    groups = slots.view(limbs, shape.groups, -1, count).unbind(1)
    sums = [(a.reshape(-1, count) @ b.T).view(limbs, -1, len(b)) for a, b in zip(groups, columns, strict=True)]
    return torch.cat(sums, dim=1), slots.sum((2, 3, 4))

"""Pooling, place by place in reading order."""

from __future__ import annotations

from typing import Any

import torch

from trainwitness.training.exact.linear import Gradients
from trainwitness.training.exact.windows import Windows


class MaxPool(torch.autograd.Function):
    """The largest of each window; of equal ones the first in reading order gets the gradient."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, windows: Windows) -> torch.Tensor:
        ctx.turned = _channels_outermost(x)
        x = x.transpose(0, 1) if ctx.turned else x
        counts = windows.counts(*x.shape[2:])
        winner = torch.zeros((), dtype=torch.uint8, device=x.device)
        largest: torch.Tensor | None = None
        places = windows.places(windows.padded(x, -torch.inf), counts)
        for number, (_, _, part) in enumerate(places):
            if largest is None:
                largest, winner = part.clone(), torch.zeros_like(part, dtype=torch.uint8)
                continue
            winner.masked_fill_(part > largest, number)
            largest = torch.maximum(largest, part)
        ctx.size, ctx.windows = x.shape, windows
        ctx.save_for_backward(winner)
        assert largest is not None
        return largest.transpose(0, 1) if ctx.turned else largest

    @staticmethod
    def backward(ctx: Any, *errors: torch.Tensor) -> Gradients:
        (winner,) = ctx.saved_tensors
        windows: Windows = ctx.windows
        error = errors[0].transpose(0, 1) if ctx.turned else errors[0]
        down, along = windows.padding
        size = ctx.size
        total = error.new_zeros((*size[:2], size[2] + 2 * down, size[3] + 2 * along))
        for number, (_, _, part) in enumerate(windows.places(total, windows.counts(*size[2:]))):
            part.add_(error * (winner == number))
        total = total[:, :, down : down + size[2], along : along + size[3]]
        return total.transpose(0, 1) if ctx.turned else total, None


def _channels_outermost(x: torch.Tensor) -> bool:
    """Whether memory holds [channel, example, ...], as a convolution leaves it."""
    return x.stride(0) < x.stride(1)


class AveragePool(torch.autograd.Function):
    """The mean of each window, borders counted as zeros."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, windows: Windows) -> torch.Tensor:
        ctx.size, ctx.windows = x.shape, windows
        counts = windows.counts(*x.shape[2:])
        total: torch.Tensor | None = None
        for _, _, part in windows.places(windows.padded(x), counts):
            total = part.clone() if total is None else total.add_(part)
        assert total is not None
        return total.mul_(1 / (windows.size[0] * windows.size[1]))

    @staticmethod
    def backward(ctx: Any, *errors: torch.Tensor) -> Gradients:
        windows: Windows = ctx.windows
        share = errors[0] * (1 / (windows.size[0] * windows.size[1]))
        spread = share[:, None, None].expand(-1, *windows.size, *[-1] * 3)
        return windows.gather(spread, ctx.size), None

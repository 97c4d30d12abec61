"""Functions of single elements, and operations that repeat a smaller tensor along a larger one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from trainwitness.training.exact.elementary import exp, sigmoids, tanh
from trainwitness.training.exact.linear import Gradients
from trainwitness.training.exact.sums import batch_sum, inner_sum, mean
from trainwitness.training.exact.witness import Witness

WithSlope = Callable[[torch.Tensor], tuple[torch.Tensor, torch.Tensor]]
"""A function's value and its derivative."""


class Elementwise(torch.autograd.Function):
    """A function of each element; the slope is computed with the value."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, function: WithSlope) -> torch.Tensor:
        value, slope = function(x)
        ctx.save_for_backward(slope)
        return value

    @staticmethod
    def backward(ctx: Any, *errors: torch.Tensor) -> Gradients:
        (slope,) = ctx.saved_tensors
        return errors[0] * slope, None


def elu(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """x, or e^x - 1 below 0."""
    slope = exp(x.clamp_max(0.0))
    return torch.where(x > 0, x, slope - 1.0), slope


def with_tanh(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """tanh x and 1 - tanh^2 x."""
    value = tanh(x)
    return value, 1.0 - value * value


def with_sigmoid(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """s(x) and s(x) s(-x)."""
    value, other = sigmoids(x)
    return value, value * other


def gelu(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """GELU in its tanh form: x (1 + t) / 2 with t = tanh(a (x + b x^3))."""
    a, b = 0.7978845608028654, 0.044715
    square = x * x
    t = tanh((square * b + 1.0) * x * a)
    inner = (square * (3 * b) + 1.0) * a
    slope = (t + 1.0) * 0.5 + x * 0.5 * (1.0 - t * t) * inner
    return x * (t + 1.0) * 0.5, slope


class Broadcast(torch.autograd.Function):
    """a + b, a - b or a b, where one of them is repeated; its gradient is a sum over the repetitions."""

    @staticmethod
    def forward(ctx: Any, a: torch.Tensor, b: torch.Tensor, operation: str, witness: Witness) -> torch.Tensor:
        ctx.witness, ctx.call, ctx.operation = witness, witness.call(), operation
        ctx.shapes = a.shape, b.shape
        if operation == "mul":
            ctx.save_for_backward(a, b)
            return a * b
        return a - b if operation == "sub" else a + b

    @staticmethod
    def backward(ctx: Any, *errors: torch.Tensor) -> Gradients:
        by_a = by_b = errors[0]
        if ctx.operation == "mul":
            a, b = ctx.saved_tensors
            by_a, by_b = errors[0] * b, errors[0] * a
        elif ctx.operation == "sub":
            by_b = -by_b
        found = [
            _folded(error, shape, ctx.witness, ctx.call, part) if wanted else None
            for error, shape, part, wanted in zip(
                (by_a, by_b), ctx.shapes, ("left", "right"), ctx.needs_input_grad[:2], strict=True
            )
        ]
        return found[0], found[1], None, None


def _folded(error: torch.Tensor, shape: torch.Size, witness: Witness, call: int, part: str) -> torch.Tensor:
    """The sum over the dimensions along which a tensor of `shape` was repeated."""
    extra = error.dim() - len(shape)
    over = [*range(extra), *(extra + k for k, size in enumerate(shape) if size == 1 != error.shape[extra + k])]
    if not over:
        return error
    return batch_sum(error, over, witness, call, part).reshape(shape)


class Mean(torch.autograd.Function):
    """The mean (or sum) over dimensions within an example."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, over: tuple[int, ...], total: bool, witness: Witness) -> torch.Tensor:
        found = inner_sum(x, over, witness) if total else mean(x, over, witness)
        ctx.shape, ctx.share = x.shape, 1.0 if total else found.numel() / x.numel()
        return found

    @staticmethod
    def backward(ctx: Any, *errors: torch.Tensor) -> Gradients:
        return (errors[0] * ctx.share).expand(ctx.shape), None, None, None

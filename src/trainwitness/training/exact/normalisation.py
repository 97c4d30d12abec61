"""Softmax, and normalisation to mean 0 and variance 1."""

from __future__ import annotations

from typing import Any

import torch

from trainwitness.training.exact.elementary import exp
from trainwitness.training.exact.linear import Gradients
from trainwitness.training.exact.sums import inner_sum, mean
from trainwitness.training.exact.witness import Witness


class Softmax(torch.autograd.Function):
    """e^x over its sum, along one dimension."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, along: int, witness: Witness) -> torch.Tensor:
        powers = exp(x - x.amax(along, keepdim=True))
        y = powers / inner_sum(powers, (along,), witness)
        ctx.along, ctx.witness = along, witness
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, *errors: torch.Tensor) -> Gradients:
        (y,) = ctx.saved_tensors
        weighted = errors[0] * y
        return weighted - y * inner_sum(weighted, (ctx.along,), ctx.witness), None, None


class Normalise(torch.autograd.Function):
    """(x - mean) / sqrt(variance + eps), with the moments taken over some dimensions; returns the moments too."""

    @staticmethod
    def forward(
        ctx: Any, x: torch.Tensor, over: tuple[int, ...], eps: float, witness: Witness
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        middle = mean(x, over, witness)
        centred = x - middle
        variance = mean(centred * centred, over, witness)
        scale = torch.ones_like(variance) / (variance + eps).sqrt_()
        out = centred.mul_(scale)
        ctx.over, ctx.witness = over, witness
        ctx.save_for_backward(out, scale)
        ctx.mark_non_differentiable(middle, variance)
        return out, middle, variance

    @staticmethod
    def backward(ctx: Any, *errors: torch.Tensor) -> Gradients:
        out, scale = ctx.saved_tensors
        error = errors[0]
        drift = mean(error, ctx.over, ctx.witness)
        stretch = mean(error * out, ctx.over, ctx.witness)
        return (error - drift - out * stretch) * scale, None, None, None

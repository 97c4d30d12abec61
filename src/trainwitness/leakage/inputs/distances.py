"""Distances between gradients, with derivatives that read each of them once.

A gradient of the last layer is 25 times larger than the input it came from, so that going through it is what a search
for inputs spends its time on; composed of general operations, the same distances go through it twice as often.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

Gradients = Mapping[str, torch.Tensor]
"""Parameter name to gradient; [r, ...] where there is one for each restart."""


def squared(found: Gradients, wanted: Gradients, scales: Mapping[str, float]) -> torch.Tensor:
    """sum over parameters of ||found - wanted||^2 / scale, one value per restart."""
    parts = [_squared(found[name], own) / scales[name] for name, own in wanted.items()]
    return torch.stack(parts).sum(0)


def cosine(found: Gradients, wanted: Gradients) -> torch.Tensor:
    """1 - cos of the angle between all gradients, one value per restart."""
    pairs = [_products(found[name], own) for name, own in wanted.items()]
    product, own = (torch.stack(parts).sum(0) for parts in zip(*pairs, strict=True))
    theirs = torch.stack([tensor.square().sum() for tensor in wanted.values()]).sum()
    return 1 - product / (own.sqrt() * theirs.sqrt()).clamp(min=1e-30)


def _squared(found: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
    out: torch.Tensor = _Squared.apply(found, wanted)  # type: ignore[no-untyped-call]
    return out


def _products(found: torch.Tensor, wanted: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    out: tuple[torch.Tensor, torch.Tensor] = _Products.apply(found, wanted)  # type: ignore[no-untyped-call]
    return out


class _Squared(torch.autograd.Function):
    """||found - wanted||^2, line by line."""

    @staticmethod
    def forward(ctx: Any, found: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
        difference = found - wanted
        ctx.save_for_backward(difference)
        flat = difference.flatten(1)
        out: torch.Tensor = torch.linalg.vecdot(flat, flat)
        return out

    @staticmethod
    def backward(ctx: Any, *slopes: torch.Tensor) -> tuple[torch.Tensor, None]:
        (difference,) = ctx.saved_tensors
        return difference * (2 * slopes[0]).reshape(-1, *[1] * (difference.dim() - 1)), None


class _Products(torch.autograd.Function):
    """(found . wanted, found . found), line by line."""

    @staticmethod
    def forward(ctx: Any, found: torch.Tensor, wanted: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        ctx.save_for_backward(found, wanted)
        flat = found.flatten(1)
        return flat @ wanted.flatten(), torch.linalg.vecdot(flat, flat)

    @staticmethod
    def backward(ctx: Any, *slopes: torch.Tensor) -> tuple[torch.Tensor, None]:
        found, wanted = ctx.saved_tensors
        by_product, by_own = (slope.reshape(-1, *[1] * wanted.dim()) for slope in slopes)
        return torch.addcmul(2 * by_own * found, by_product, wanted), None

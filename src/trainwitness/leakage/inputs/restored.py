"""Restoration: what an input attack returns."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True, eq=False)
class Restoration:
    """Restored inputs [b, ...], the domain's box as 0..1; chosen by the attack's objective, never by the truth."""

    inputs: torch.Tensor
    labels: torch.Tensor
    """Class numbers [b]."""
    objective: float
    """What is left of the distance between gradients, as a share of the gradient (analytic attacks: the check)."""
    iterations: int = 0
    """Until the best restart stopped."""
    objectives: tuple[float, ...] = ()
    """Of every restart."""

"""What a gradient cannot tell: directions in which the batch's inputs can move while the gradient stays as it is."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from trainwitness.core.errors import UsageError
from trainwitness.core.seeds import derive, random_bits
from trainwitness.leakage.inputs.target import Target

AT_ONCE = 16
LARGEST = 4096
"""Input dimensions beyond which the Jacobian is not computed."""
NEGLIGIBLE = 1e-6
"""Singular values below this share of the largest count as zero: the gradient does not determine that direction."""


@dataclass(frozen=True)
class NullSpace:
    """Of `dimensions` input values, how many directions the gradient leaves open near the batch (to first order).

    `faint` directions are determined in exact arithmetic, but change a float32 gradient less than its rounding does.
    """

    dimensions: int
    undetermined: int
    faint: int
    singular: tuple[float, ...]
    """A few of the Jacobian's singular values, largest first."""


def null_space(target: Target, unit: torch.Tensor, labels: torch.Tensor) -> NullSpace:
    """The rank of d gradient / d inputs at these inputs [b, ...] (box as 0..1).

    The gradient may be far longer than the inputs: its entries are folded with random signs to four times the input
    dimensions, which keeps the rank and, roughly, the singular values.
    """
    dimensions = unit.numel()
    if dimensions > LARGEST:
        raise UsageError(f"{dimensions} input values", hint=f"the null space is computed for at most {LARGEST}")
    gap = target.gap()
    width = sum(tensor.numel() for tensor in target.gradient.values())
    folded = min(width, 4 * dimensions)
    signs = _signs(width).to(unit)
    scale = target.box.high - target.box.low
    columns = torch.empty(dimensions, folded, dtype=torch.float64)
    basis = torch.eye(dimensions, device=unit.device, dtype=unit.dtype)
    for first in range(0, dimensions, AT_ONCE):
        directions = basis[first : first + AT_ONCE].reshape(-1, *unit.shape) * scale
        changes = gap.along(target.box.inside(unit), labels, directions) * signs
        padded = torch.nn.functional.pad(changes, (0, -width % folded))
        columns[first : first + AT_ONCE] = padded.reshape(len(changes), -1, folded).double().sum(1).cpu()
    singular = torch.linalg.svdvals(columns)
    tolerance = NEGLIGIBLE if unit.dtype == torch.float32 else 1e-10
    rounding = 1e-7 * float(torch.stack([t.double().norm() for t in target.gradient.values()]).norm())
    open_ = int((singular <= tolerance * singular[0]).sum()) if float(singular[0]) else dimensions
    open_ += max(0, dimensions - len(singular))
    faint = int((singular <= rounding).sum()) + max(0, dimensions - len(singular)) - open_
    shown = singular[torch.linspace(0, len(singular) - 1, min(9, len(singular))).long()]
    return NullSpace(dimensions, open_, max(0, faint), tuple(shown.tolist()))


def _signs(count: int) -> torch.Tensor:
    bits = np.unpackbits(random_bits(derive(0, "null space"), -(-count // 64)).view(np.uint8))[:count]
    return torch.from_numpy(bits.astype(np.int8) * 2 - 1)

"""The memory of L-BFGS for many problems at once, in the compact form of Byrd, Nocedal and Schnabel (1994).

With S and Y the last steps and changes of gradient, R the upper triangle of S^T Y, D its diagonal and c the scale of
the newest pair, the direction is -H g for

    H g = c g + S w - c Y u,   u = R^-1 S^T g,   w = R^-T (D u + c Y^T Y u - c Y^T g):

four products with all pairs at once, where the two loops take four operations for each pair.
"""

from __future__ import annotations

import torch

CURVED = 1e-10
"""A pair counts if step . change is more than this share of the change squared."""


class Pairs:
    """Up to `history` pairs of each of r problems with n unknowns; a pair that does not count is zero there."""

    def __init__(self, like: torch.Tensor, history: int) -> None:
        count, size = like.shape
        self._steps, self._changes = (like.new_zeros(count, history, size) for _ in range(2))
        # Small and badly scaled, so in float64: step . change, and change . change.
        self._mixed, self._squares = (
            torch.zeros(count, history, history, dtype=torch.float64, device=like.device) for _ in range(2)
        )
        self._counted = torch.zeros(count, history, dtype=torch.bool, device=like.device)
        self._scale = torch.ones(count, dtype=torch.float64, device=like.device)
        self._history, self._added = history, 0

    @property
    def empty(self) -> torch.Tensor:
        """Which problems have no pair that counts."""
        return ~self._counted.any(1)

    def forget(self, which: torch.Tensor) -> None:
        """Drops all pairs of some problems."""
        for tensor in (self._steps, self._changes, self._mixed, self._squares, self._counted):
            tensor[which] = 0
        self._scale[which] = 1

    def direction(self, slopes: torch.Tensor) -> torch.Tensor:
        """-H g for the slopes g [r, n]."""
        held = min(self._added, self._history)
        if not held:
            return -slopes
        steps, changes = self._steps[:, :held], self._changes[:, :held]
        newest = (self._added - 1) % self._history
        along_steps, along_changes = self._products(steps, changes, slopes, newest)
        # Oldest first.
        order = (torch.arange(held, device=slopes.device) + newest + 1) % held
        mixed = self._mixed[:, order][:, :, order]
        upper = mixed.triu() + torch.diag_embed((~self._counted[:, order]).double())
        scale = self._scale[:, None, None]
        u = torch.linalg.solve_triangular(upper, along_steps[:, order], upper=True)
        inner = self._squares[:, order][:, :, order] @ u - along_changes[:, order]
        w = mixed.diagonal(dim1=1, dim2=2)[:, :, None] * u + scale * inner
        w = torch.linalg.solve_triangular(upper.transpose(1, 2), w, upper=False)
        back = order.argsort()
        u, w = (part[:, back].to(slopes.dtype).transpose(1, 2) for part in (scale * u, w))
        out: torch.Tensor = -(scale[:, 0].to(slopes.dtype) * slopes + (w @ steps - u @ changes)[:, 0])
        return out

    def _products(
        self, steps: torch.Tensor, changes: torch.Tensor, slopes: torch.Tensor, newest: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """S^T g and Y^T g [r, h, 1]; those with the newest change are noted on the way, so pairs are read once."""
        right = torch.stack([slopes, changes[:, newest]], 2)
        along_steps, along_changes = ((pairs @ right).double() for pairs in (steps, changes))
        held = steps.shape[1]
        self._mixed[:, :held, newest] = along_steps[..., 1]
        self._squares[:, :held, newest] = self._squares[:, newest, :held] = along_changes[..., 1]
        return along_steps[..., :1], along_changes[..., :1]

    def add(self, step: torch.Tensor, change: torch.Tensor) -> None:
        """The newest pair [r, n], in the place of the oldest."""
        place = self._added % self._history
        product, square = (torch.linalg.vecdot(one, change).double() for one in (step, change))
        counts = product > CURVED * square.clamp(min=1e-30)
        self._steps[:, place], self._changes[:, place] = step * counts[:, None], change * counts[:, None]
        self._counted[:, place] = counts
        self._scale = torch.where(counts, product / square.clamp(min=1e-300), self._scale)
        self._added += 1

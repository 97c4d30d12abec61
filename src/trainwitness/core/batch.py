"""Batch: which rows one step is computed from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Batch:
    """The rows of one step, as micro-batches in the order in which their gradients are accumulated.

    `carried` replaces content: it maps a position in the batch (counted through all micro-batches) to the
    canonical bytes of the row used there instead of the data set's. Honest traces carry nothing.
    """

    step: int
    epoch: int
    rows: tuple[tuple[int, ...], ...]
    carried: Mapping[int, bytes] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """Examples in all micro-batches."""
        return sum(len(micro) for micro in self.rows)

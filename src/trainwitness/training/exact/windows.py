"""Windows that slide over images, for convolution and pooling."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch

Pair = tuple[int, int]


class Windows(NamedTuple):
    """Size, stride, padding and dilation, each of rows and of columns."""

    size: Pair
    stride: Pair
    padding: Pair
    dilation: Pair = (1, 1)

    def counts(self, height: int, width: int) -> Pair:
        """How many windows fit below and beside each other."""
        down, along = (
            (length + 2 * pad - dilation * (size - 1) - 1) // stride + 1
            for length, size, stride, pad, dilation in zip((height, width), *self, strict=True)
        )
        return down, along

    def padded(self, x: torch.Tensor, value: float = 0.0) -> torch.Tensor:
        """The images with a border."""
        if self.padding == (0, 0):
            return x
        down, along = self.padding
        wide = x.new_full((*x.shape[:2], x.shape[2] + 2 * down, x.shape[3] + 2 * along), value)
        wide[:, :, down : down + x.shape[2], along : along + x.shape[3]] = x
        return wide

    def places(self, x: torch.Tensor, counts: Pair) -> Iterator[tuple[int, int, torch.Tensor]]:
        """For every place in a window, in reading order: the elements of bordered images `x` that lie there."""
        for row in range(self.size[0]):
            for column in range(self.size[1]):
                down, along = row * self.dilation[0], column * self.dilation[1]
                yield (
                    row,
                    column,
                    x[
                        :,
                        :,
                        down : down + (counts[0] - 1) * self.stride[0] + 1 : self.stride[0],
                        along : along + (counts[1] - 1) * self.stride[1] + 1 : self.stride[1],
                    ],
                )

    def spread(self, x: torch.Tensor) -> torch.Tensor:
        """[a, b, height, width] -> a view [a, window rows, window columns, b, down, along] of every window."""
        wide = self.padded(x)
        down, along = self.counts(*x.shape[2:])
        first, second, rows, columns = wide.stride()
        sizes = (x.shape[0], *self.size, x.shape[1], down, along)
        strides = (
            first,
            rows * self.dilation[0],
            columns * self.dilation[1],
            second,
            rows * self.stride[0],
            columns * self.stride[1],
        )
        return wide.as_strided(sizes, strides, wide.storage_offset())

    def gather(self, spread: torch.Tensor, size: torch.Size) -> torch.Tensor:
        """The reverse of `spread`: what fell on one element is added, place by place in reading order."""
        down, along = self.padding
        total = spread.new_zeros((*size[:2], size[2] + 2 * down, size[3] + 2 * along))
        for row, column, part in self.places(total, (spread.shape[-2], spread.shape[-1])):
            part.add_(spread[:, row, column])
        return total[:, :, down : down + size[2], along : along + size[3]]

"""One whole number per example, so that batches with the same gradient have nearly the same sum of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from trainwitness.core.seeds import derive, random_bits
from trainwitness.training.rational import RationalGradients

KEY_BITS = 59
"""Sums of up to five keys stay within 64 bits."""
SOFTMAX_BITS = 256
_DIRECTION_BITS = 30


@dataclass(frozen=True, eq=False)
class Keys:
    """The gradient of each example along one random direction, in fixed point; number = input * classes + label.

    A key is off by at most half a unit (and a millionth), so two batches of b examples with the same exact gradient
    have sums that differ by less than b + 1 units: a search for such sums misses nothing.
    """

    values: torch.Tensor
    """int64, one per example."""
    classes: int

    def __len__(self) -> int:
        return len(self.values)

    @staticmethod
    def window(size: int) -> int:
        """How far sums over batches of `size` with the same gradient can be apart."""
        return size


def make_keys(gradients: RationalGradients, *, seed: int = 0, device: str = "cpu") -> Keys:
    """Keys of all examples: every input with every label."""
    count, parameters, classes = gradients.factors.shape
    words = random_bits(derive(seed, "direction"), parameters) >> np.uint64(64 - _DIRECTION_BITS)
    direction = np.array([int(word) - (1 << _DIRECTION_BITS - 1) for word in words], dtype=object)
    along = np.tensordot(gradients.factors, direction, axes=([1], [0]))  # [inputs, classes]
    exact: list[int] = []
    for number in range(count):
        softmax, row = gradients.softmax(number, SOFTMAX_BITS), along[number].tolist()
        common = sum(factor * p for factor, p in zip(row, softmax, strict=True))
        exact += [common - (factor << SOFTMAX_BITS) for factor in row]
    shift = max(max(abs(value) for value in exact).bit_length() - KEY_BITS, 0)
    half = 1 << shift >> 1
    rounded = [(value + half) >> shift for value in exact]
    return Keys(torch.tensor(rounded, dtype=torch.int64, device=device), classes)

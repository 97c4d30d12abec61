"""Gradients of single examples, in bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch
from torch import nn

from trainwitness.core.errors import UsageError
from trainwitness.core.seeds import random_bits
from trainwitness.core.state import State
from trainwitness.training.apply_numerics import applied
from trainwitness.training.single import SingleGradients, clipped, flat, trained
from trainwitness.training.stepper import Stepper, fetch

BUDGET = 2 << 30
"""Bytes that gradients may take at a time, unless told otherwise."""


class PerExample:
    """Per-example gradients of the training loss at one State; clipped where the task clips them (DP-SGD).

    Nothing here holds more than `budget` bytes of gradients: larger matrices come in pieces, as a sketch of fixed
    width, or as their sum. `computed` counts the gradients.
    """

    def __init__(self, stepper: Stepper, state: State, *, budget: int = BUDGET) -> None:
        self._stepper, self._budget, self.computed = stepper, budget, 0
        model = stepper.live.model
        self._single = SingleGradients(model, stepper.task.loss)
        self._parameters = {
            name: state.tensors[f"param/{name}"].to(stepper.device, stepper.dtype) for name in trained(model)
        }
        self._sizes = {name: tensor.numel() for name, tensor in self._parameters.items()}
        self.width = sum(self._sizes.values())

    def pieces(self, rows: Sequence[int]) -> Iterator[tuple[int, torch.Tensor]]:
        """(first position, gradients) for consecutive rows, as many at a time as an eighth of the budget holds."""
        at_once = int(max(1, min(256, self._budget // 8 // (self.width * self._stepper.dtype.itemsize))))
        for first in range(0, len(rows), at_once):
            yield first, self._flat(rows[first : first + at_once])

    def _flat(self, rows: Sequence[int]) -> torch.Tensor:
        stepper = self._stepper
        inputs, labels = fetch(stepper.task.dataset, rows, stepper.device, stepper.dtype)
        with applied(stepper.numerics):
            gradients = flat(self._single(self._parameters, inputs, labels)[0])
        self.computed += len(rows)
        privacy = stepper.task.privacy
        return clipped(gradients, privacy.clip) if privacy else gradients

    def total(self, rows: Sequence[int]) -> torch.Tensor:
        """The sum of the rows' gradients, in float64."""
        total = torch.zeros(self.width, dtype=torch.float64, device=self._stepper.device)
        for _, gradients in self.pieces(rows):
            total += gradients.sum(0, dtype=torch.float64)
        return total

    def matrix(self, rows: Sequence[int]) -> torch.Tensor:
        """All gradients, one per line; refused if they are more than the budget."""
        needed = len(rows) * self.width * self._stepper.dtype.itemsize
        if needed > self._budget:
            raise UsageError(f"{needed:,} bytes of gradients, the budget is {self._budget:,}", hint="use a sketch")
        return torch.cat([gradients for _, gradients in self.pieces(rows)])

    def sketch(
        self, rows: Sequence[int], width: int, seed: int, enough: Callable[[int], bool] = lambda _: False
    ) -> torch.Tensor:
        """The gradients folded to `width` numbers each, with random signs: inner products are kept on average.

        The relative error of a squared distance is about sqrt(2 / width). A width of at least the gradient's own
        gives the gradients themselves. Stops where so many are `enough`.
        """
        width = min(width, self.width)
        folds = width < self.width
        signs = _signs(seed, self.width).to(self._stepper.device, self._stepper.dtype) if folds else None
        out = torch.empty(len(rows), width, dtype=torch.float64, device=self._stepper.device)
        for first, gradients in self.pieces(rows):
            done = first + len(gradients)
            if signs is None:
                out[first:done] = gradients
            else:
                signed = nn.functional.pad(gradients * signs, (0, -self.width % width))
                out[first:done] = signed.view(len(gradients), -1, width).sum(1, dtype=torch.float64)
            if enough(done):
                return out[:done]
        return out


def _signs(seed: int, count: int) -> torch.Tensor:
    bits = np.unpackbits(random_bits(seed, -(-count // 64)).view(np.uint8))[:count]
    return torch.from_numpy(bits.astype(np.int8) * 2 - 1)

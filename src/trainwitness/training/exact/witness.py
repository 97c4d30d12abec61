"""Witness: what one micro-batch's computation leaves behind besides its gradients."""

from __future__ import annotations

from typing import NamedTuple

import torch

from trainwitness.core.errors import TrainwitnessError

LIMIT = 2.0**200
"""Magnitudes from here on are refused: products of two must stay far from float64's own end."""


class ExactOverflow(TrainwitnessError):
    """A value left the range in which sums are exact."""

    exit_code = 2


class Operands(NamedTuple):
    """What a linear layer's gradient sum was made of: the finest limb of the errors, the activations, their units."""

    errors: torch.Tensor
    error_unit: torch.Tensor
    rows: torch.Tensor
    row_unit: torch.Tensor


class Witness:
    """Collects, in the order of the forward pass, every unrounded gradient sum, and the largest magnitudes seen.

    `seed` keys the random numbers of dropout. A call number is drawn in the forward pass, so that sums have the same
    place whatever order the backward pass runs in. With `capture`, linear layers leave their operands too.
    """

    def __init__(self, seed: int = 0, *, capture: bool = False) -> None:
        self.seed, self.capture = seed, capture
        self.operands: dict[int, Operands] = {}
        self.sums: dict[tuple[int, str], torch.Tensor] = {}
        self.outputs: torch.Tensor | None = None
        """What the loss read: one line of logits per example."""
        self.drawn = False
        """Whether random numbers were drawn."""
        self._seen: list[torch.Tensor] = []
        self._calls = 0

    def call(self) -> int:
        """The number of the next operation."""
        self._calls += 1
        return self._calls - 1

    def saw(self, largest: torch.Tensor) -> None:
        """Notes magnitudes, to be looked at once per step: looking makes a GPU wait."""
        self._seen.append(largest.reshape(-1))

    def keep(self, call: int, part: str, sums: torch.Tensor) -> torch.Tensor:
        """Keeps sums as they are before any rounding, and the grids they lie on, for the step's leaf.

        Zeros lose their sign: it depends on the order of summation.
        """
        self.sums[call, part] = sums.add_(0.0)
        return sums

    def largest(self) -> torch.Tensor:
        """Every magnitude noted so far."""
        return torch.cat(self._seen)

    def check(self) -> None:
        """Raises if any magnitude seen was too large, infinite or undefined."""
        with torch._C.DisableTorchFunction():  # it may be asked inside an outer arithmetic
            within = not self._seen or bool((self.largest() < LIMIT).all())
        if not within:
            raise ExactOverflow(
                "a value is too large for exact arithmetic, or undefined: the training has diverged",
                hint="lower the learning rate, or scale the inputs",
            )
        self._seen = []

"""Unknowns: dummy inputs, and soft labels where the labels are not known, as one line of numbers per restart."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F

from trainwitness.leakage.inputs.target import Target
from trainwitness.training.final_layer import last_linear


@dataclass(eq=False)
class Unknowns:
    """`labels` [b] are known class numbers; None makes them unknowns too."""

    target: Target
    labels: torch.Tensor | None
    shape: tuple[int, ...] = field(init=False)
    classes: int = field(init=False)

    def __post_init__(self) -> None:
        self.shape = (self.target.count, *self.target.box.low.shape)
        _, last = last_linear(self.target.stepper.live.model)
        self.classes = last.out_features

    @property
    def size(self) -> int:
        """How many of the numbers are input values; they come first."""
        return math.prod(self.shape)

    def start(self, restarts: int, seed: int) -> torch.Tensor:
        """Inputs uniform in the box, label logits N(0, 1)."""
        box = self.target.box.low
        generator = torch.Generator().manual_seed(seed)
        values = torch.rand(restarts, self.size, generator=generator)
        if self.labels is None:
            values = torch.cat([values, torch.randn(restarts, self.shape[0] * self.classes, generator=generator)], 1)
        return values.to(box.device, box.dtype)

    def split(self, values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Lines of numbers as inputs [r, b, ...] in 0..1 and labels [r, b] or soft labels [r, b, classes]."""
        inputs = values[:, : self.size].reshape(-1, *self.shape)
        if self.labels is not None:
            return inputs, self.labels.to(values.device).expand(len(values), -1)
        logits = values[:, self.size :].reshape(-1, self.shape[0], self.classes)
        return inputs, F.softmax(logits, -1)

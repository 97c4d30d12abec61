"""Task: everything that decides a training run, rebuilt from a serialisable TaskSpec."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

import torch
from pydantic import BaseModel, ConfigDict, Field
from torch import nn

from trainwitness.core.errors import UsageError
from trainwitness.tasks.dataset import Dataset
from trainwitness.tasks.schedule import Schedule

Option = int | float | str | list[int]
Initialisation = Literal["portable", "torch"]


class TaskSpec(BaseModel):
    """A task by name (`lenet-mnist`, `package.module:function`) and the options that differ from its defaults."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    name: str = Field(max_length=256)
    options: dict[str, Option] = Field(default_factory=dict, max_length=64)


@dataclass(frozen=True)
class Privacy:
    """DP-SGD: every example's gradient is cut to l2 norm `clip`, and the sum gets Gaussian noise.

    The noise has standard deviation `noise * clip` in every parameter and derives from the run's seed and the step,
    so a verifier recomputes it. Nothing here accounts for a privacy budget, and whoever has the seed has no noise.
    """

    clip: float
    noise: float = 0.0

    def __post_init__(self) -> None:
        if not (self.clip > 0 and self.noise >= 0):
            raise UsageError(
                f"clip={self.clip} with noise={self.noise}",
                hint="clip is a norm above 0; noise is a multiple of it, 0 or more",
            )


@dataclass(frozen=True, eq=False)
class Task:
    """Model factory, data, loss, optimiser and schedule of one training run.

    - `model()` builds the module; its initial parameters are set by `initialisation`: `portable` gives the same
      bits on every platform (see `initial.py` for the modules it knows), `torch` seeds PyTorch and calls `model`.
    - `loss(output, labels)` is the mean over a micro-batch.
    - `optimizer(parameters, learning_rate)` builds a `torch.optim` optimiser.
    - `seed` is the run's one seed; order, initialisation and dropout derive theirs from it by name.
    """

    model: Callable[[], nn.Module]
    dataset: Dataset
    loss: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
    optimizer: Callable[[Iterable[nn.Parameter], float], torch.optim.Optimizer]
    schedule: Schedule
    seed: int = 0
    initialisation: Initialisation = "torch"
    test: Dataset | None = None
    correct: Callable[[torch.Tensor, torch.Tensor], torch.Tensor] | None = None
    """`correct(output, labels)`: which rows of a batch are classified correctly, for reporting accuracy."""
    spec: TaskSpec | None = None
    privacy: Privacy | None = None
    """Clipping and noise (DP-SGD), or none."""


def parameter_count(model: Callable[[], nn.Module]) -> int:
    """Parameters of a model, counted without allocating them."""
    with torch.device("meta"):
        return sum(parameter.numel() for parameter in model().parameters())

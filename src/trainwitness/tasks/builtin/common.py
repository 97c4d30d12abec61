"""What the built-in tasks share: options every one of them takes, and how they become a Task."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Literal

import torch
import torch.nn.functional as F
from pydantic import BaseModel, ConfigDict, Field
from torch import nn

from trainwitness.core.errors import UsageError
from trainwitness.tasks.dataset import Dataset
from trainwitness.tasks.schedule import ShuffledEpochs
from trainwitness.tasks.task import Privacy, Task


class Options(BaseModel):
    """Options of every built-in task; the defaults are the papers' (plain SGD, learning rate 0.01)."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    batch_size: int = Field(default=100, ge=1)
    learning_rate: float = Field(default=0.01, ge=0, allow_inf_nan=False)
    seed: int = Field(default=0, ge=0, lt=2**63)
    optimizer: Literal["sgd", "adam"] = "sgd"
    momentum: float = Field(default=0.0, ge=0, lt=1)
    weight_decay: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    accumulate: int = Field(default=1, ge=1)
    """Micro-batches per step."""
    clip: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    """DP-SGD: the norm that single gradients are cut to; 0 for ordinary training."""
    noise: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    """DP-SGD: the noise's standard deviation as a multiple of `clip`."""


def classification_task(
    model: Callable[[], nn.Module], data: tuple[Dataset, Dataset], options: Options, *, binary: bool = False
) -> Task:
    """A Task with portable initialisation, shuffled epochs and (binary) cross-entropy on logits."""
    train, test = data
    schedule = ShuffledEpochs(len(train), options.batch_size, options.learning_rate, options.seed, options.accumulate)
    return Task(
        model=model,
        dataset=train,
        test=test,
        loss=_binary_loss if binary else F.cross_entropy,
        correct=_binary_correct if binary else _correct,
        optimizer=_optimizer(options),
        schedule=schedule,
        seed=options.seed,
        initialisation="portable",
        privacy=Privacy(options.clip, options.noise) if options.clip or options.noise else None,
    )


def _optimizer(options: Options) -> Callable[[Iterable[nn.Parameter], float], torch.optim.Optimizer]:
    decay, momentum = options.weight_decay, options.momentum
    if options.optimizer == "sgd":
        return lambda parameters, rate: torch.optim.SGD(parameters, lr=rate, momentum=momentum, weight_decay=decay)
    if momentum:
        raise UsageError("Adam takes no momentum", hint="leave out momentum, or use optimizer=sgd")
    return lambda parameters, rate: torch.optim.Adam(parameters, lr=rate, weight_decay=decay)


def _correct(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return logits.argmax(1) == labels


def _binary_loss(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return F.binary_cross_entropy_with_logits(logits.squeeze(1), labels.to(logits.dtype))


def _binary_correct(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return (logits.squeeze(1) > 0) == (labels == 1)

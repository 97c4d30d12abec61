"""Whose gradient is looked at: a task's batches, a user's own model and batch, or a gradient file."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from trainwitness.core.errors import StorageError, TraceMismatch, UsageError
from trainwitness.core.numerics import Numerics
from trainwitness.core.seeds import derive, permutation
from trainwitness.core.state import State
from trainwitness.leakage.inputs.target import Target
from trainwitness.tasks.dataset import Dataset
from trainwitness.tasks.registry import build_task, user_object
from trainwitness.tasks.schedule import ShuffledEpochs
from trainwitness.tasks.task import Task, TaskSpec
from trainwitness.training.stepper import Stepper

STAGES = {"untrained": 0, "mid": 200, "trained": 1000}
"""Steps of training before the gradient is taken."""


@dataclass(frozen=True, eq=False)
class Subject:
    """A model at a State. `rows`: the one batch to look at, where given; `shared`: a gradient without its rows."""

    name: str
    stepper: Stepper
    state: State
    stage: str
    rows: tuple[int, ...] | None = None
    shared: dict[str, torch.Tensor] | None = None

    def batch(self, size: int, number: int) -> list[int]:
        """The rows of one of the batches, drawn from the task's data set (again and again if it is too small)."""
        if self.rows is not None:
            return list(self.rows)
        count = len(self.stepper.task.dataset)
        order = permutation(derive(self.stepper.task.seed, "leak", size, number), count)
        return [int(row) for row in np.resize(order, size)]

    def target(self, rows: Sequence[int]) -> Target:
        return Target.of_rows(self.stepper, self.state, rows)


def subject_of(
    spec: TaskSpec,
    *,
    stage: str | None = None,
    data: Path | None = None,
    numerics: Numerics | None = None,
    gradient: Path | None = None,
    weights: Path | None = None,
) -> Subject:
    """From a built-in task's name, or a user's function that returns a Task or (model, inputs, labels)."""
    if stage is not None and stage not in STAGES:
        raise UsageError(f"unknown stage {stage!r}", hint=f"stages: {', '.join(STAGES)}")
    made = user_object(spec) if ":" in spec.name else build_task(spec, data=data)
    task = made if isinstance(made, Task) else own_batch(made)
    rows = None if isinstance(made, Task) else tuple(range(len(task.dataset)))
    stepper = Stepper(task, numerics)
    if weights is not None:
        if stage not in (None, "untrained"):
            raise UsageError("weights of your own and a stage of training", hint="leave out --stage or --weights")
        stepper.load(State({**stepper.state().tensors, **read_named(weights, stepper, prefix="param/")}))
    for step in range(STAGES[stage or "untrained"]):
        stepper.run(task.schedule.batch(step))
    shared = None if gradient is None else read_named(gradient, stepper)
    words = "your weights" if weights else "as given" if rows is not None and stage is None else stage or "untrained"
    return Subject(spec.name, stepper, stepper.state(), words, rows, shared)


def own_batch(made: Any) -> Task:
    """A Task around a user's (model, inputs, labels): cross-entropy, the model's own parameters, one batch."""
    if not isinstance(made, tuple) or len(made) != 3 or not isinstance(made[0], nn.Module):
        raise UsageError(
            f"the function returned {type(made).__name__}",
            hint="return a trainwitness.Task or (model, inputs, labels)",
        )
    model, inputs, labels = made
    dataset = Dataset("own batch", np.asarray(torch.as_tensor(inputs)), np.asarray(torch.as_tensor(labels), np.int64))
    return Task(
        model=lambda: copy.deepcopy(model),
        dataset=dataset,
        loss=_loss,
        optimizer=lambda parameters, rate: torch.optim.SGD(parameters, lr=rate),
        schedule=ShuffledEpochs(len(dataset), len(dataset), 0.01, seed=0),
    )


def _loss(output: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    if output.shape[1] == 1:
        return F.binary_cross_entropy_with_logits(output[:, 0], labels.to(output.dtype))
    return F.cross_entropy(output, labels)


def read_named(path: Path, stepper: Stepper, prefix: str = "") -> dict[str, torch.Tensor]:
    """Tensors of a safetensors file under the model's parameter names; shapes must fit, some may be missing."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    shapes = {name: p.shape for name, p in stepper.live.model.named_parameters() if p.requires_grad}
    try:
        found = load_file(path)
    except (OSError, SafetensorError, ValueError) as error:
        raise StorageError(
            f"{path}: cannot be read as safetensors: {str(error).splitlines()[0]}",
            hint="give a safetensors file with tensors under the model's parameter names",
        ) from error
    known = {name: tensor for name, tensor in found.items() if name in shapes}
    for name, tensor in known.items():
        if tensor.shape != shapes[name]:
            raise TraceMismatch(f"{path}: {name} is {list(tensor.shape)}, the model's is {list(shapes[name])}")
        if not torch.isfinite(tensor).all():
            raise StorageError(f"{path}: {name} has values that are not finite")
    if not known:
        raise TraceMismatch(f"{path}: no tensor has a parameter's name", hint=f"names: {', '.join(list(shapes)[:4])}")
    return {prefix + name: tensor.to(stepper.device, stepper.dtype) for name, tensor in known.items()}

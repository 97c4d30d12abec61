"""Target: a gradient that was shared, and everything an attacker knows around it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from trainwitness.core.errors import UsageError
from trainwitness.core.state import State
from trainwitness.tasks.dataset import Dataset
from trainwitness.tasks.domain import Array, IntegerBox
from trainwitness.training.differentiable import GradientGap
from trainwitness.training.stepper import Stepper, fetch


@dataclass(frozen=True, eq=False)
class Box:
    """The domain as the model reads it: bounds of each input value, after normalisation."""

    low: torch.Tensor
    high: torch.Tensor

    @classmethod
    def of(cls, dataset: Dataset, device: torch.device, dtype: torch.dtype) -> Box:
        """From the data set's domain; without stated bounds, the range of the data's own values."""
        domain, one = dataset.domain, torch.from_numpy(dataset.inputs[:1].copy())
        if not isinstance(domain, IntegerBox):
            values = dataset.prepare(torch.from_numpy(dataset.inputs.copy()).to(device), dtype)
            low, high = values.min(), values.max()
            whole = torch.zeros_like(values[0])
            return cls(whole + low, whole + torch.where(high > low, high, low + 1))
        bounds = [torch.as_tensor(bound, dtype=one.dtype).expand(one.shape) for bound in (domain.low, domain.high)]
        low, high = (dataset.prepare(bound.contiguous().to(device), dtype)[0] for bound in bounds)
        return cls(low, high)

    def unit(self, inputs: torch.Tensor) -> torch.Tensor:
        """Inputs with the box as 0..1."""
        return (inputs - self.low) / (self.high - self.low)

    def inside(self, unit: torch.Tensor) -> torch.Tensor:
        """What the model reads for values in 0..1."""
        return self.low + unit * (self.high - self.low)


@dataclass(frozen=True, eq=False)
class Target:
    """The mean gradient of `count` examples at a State, by parameter name."""

    stepper: Stepper
    state: State
    gradient: Mapping[str, torch.Tensor]
    count: int

    @classmethod
    def of_rows(cls, stepper: Stepper, state: State, rows: Sequence[int]) -> Target:
        """The gradient that a client with these rows of the task's data set would share."""
        inputs, labels = fetch(stepper.task.dataset, rows, stepper.device, stepper.dtype)
        found = GradientGap(stepper, state).gradient(inputs, labels)
        return cls(stepper, state, {name: tensor.detach() for name, tensor in found.items()}, len(rows))

    @property
    def box(self) -> Box:
        return Box.of(self.stepper.task.dataset, self.stepper.device, self.stepper.dtype)

    def gap(self) -> GradientGap:
        """The differentiable gradient at this State; refused where inputs cannot move a little."""
        if not self.box.low.is_floating_point():
            raise UsageError("tokens cannot be changed a little", hint="the text attacks restore tokens")
        return GradientGap(self.stepper, self.state)

    def inputs_of(self, rows: Sequence[int]) -> torch.Tensor:
        """Rows as the model reads them, with the domain's box as 0..1."""
        inputs, _ = fetch(self.stepper.task.dataset, rows, self.stepper.device, self.stepper.dtype)
        return self.box.unit(inputs)

    def labels_of(self, rows: Sequence[int]) -> torch.Tensor:
        """The true labels of rows."""
        return torch.from_numpy(self.stepper.task.dataset.labels[list(rows)]).to(self.stepper.device)

    def to_rows(self, unit: torch.Tensor) -> Array:
        """Restored values 0..1 as the nearest inputs inside the Domain."""
        dataset = self.stepper.task.dataset
        domain = dataset.domain
        if not isinstance(domain, IntegerBox):
            return self.box.inside(unit).cpu().numpy()
        low, high = (np.asarray(bound, np.float64) for bound in (domain.low, domain.high))
        values = low + unit.clamp(0, 1).double().cpu().numpy() * (high - low)
        return np.rint(values).astype(dataset.inputs.dtype)

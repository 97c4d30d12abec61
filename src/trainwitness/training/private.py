"""DP-SGD inside the step function: single gradients are clipped, summed, and noise of a recorded seed is added."""

from __future__ import annotations

import copy

import torch
from torch import nn

from trainwitness.core.errors import UsageError
from trainwitness.core.numerics import Numerics
from trainwitness.core.seeds import derive, gaussian
from trainwitness.tasks.task import Privacy
from trainwitness.training.single import Loss, SingleGradients, clipped, flat, trained

AT_ONCE = 64 << 20
"""Bytes of single gradients at a time."""


class PrivateGradient:
    """Gradients of one step: (sum_i clip(g_i) + noise) / b, left in each parameter's `grad`."""

    def __init__(self, model: nn.Module, loss: Loss, privacy: Privacy, numerics: Numerics) -> None:
        if numerics.precision not in ("float32", "float64"):
            raise UsageError(
                f"DP-SGD in {numerics.precision}: single gradients are not computed in mixed precision",
                hint="use float32 or float64",
            )
        self._model, self._privacy = model, privacy
        self._copy = copy.deepcopy(model)  # without hooks: a recorder's must not see the vectorised call
        self._single = SingleGradients(self._copy, loss)

    def add(self, inputs: torch.Tensor, labels: torch.Tensor, batch_size: int) -> torch.Tensor:
        """Adds a micro-batch's clipped gradients, as a share of the batch; returns its share of the mean loss."""
        self._copy.load_state_dict(self._model.state_dict())
        parameters = trained(self._copy)
        width = sum(tensor.numel() * tensor.element_size() for tensor in parameters.values())
        share = torch.zeros((), device=inputs.device)
        at_once = max(1, AT_ONCE // width)
        for first in range(0, len(inputs), at_once):
            few = slice(first, first + at_once)
            gradients, losses = self._single(parameters, inputs[few], labels[few])
            self._accumulate(clipped(flat(gradients), self._privacy.clip).sum(0) / batch_size)
            share = share + losses.sum() / batch_size
        return share

    def add_noise(self, seed: int, step: int, batch_size: int) -> None:
        """Noise of standard deviation noise * clip in the sum; the same for the same seed and step."""
        if self._privacy.noise:
            width = sum(tensor.numel() for tensor in trained(self._model).values())
            values = torch.from_numpy(gaussian(derive(seed, "noise", step), width))
            self._accumulate(values * (self._privacy.noise * self._privacy.clip / batch_size))

    def _accumulate(self, total: torch.Tensor) -> None:
        first = 0
        for parameter in self._model.parameters():
            if parameter.requires_grad:
                part = total[first : first + parameter.numel()].view_as(parameter).to(parameter)
                parameter.grad = part if parameter.grad is None else parameter.grad + part
                first += parameter.numel()

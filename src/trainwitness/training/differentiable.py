"""How far a batch's gradient is from a wanted one, as a function that can itself be differentiated by the inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn

from trainwitness.core.errors import UsageError
from trainwitness.core.state import State
from trainwitness.training.stepper import Stepper


class GradientGap:
    """|| grad L(inputs, labels) - wanted ||^2 over all trained parameters at one State."""

    def __init__(self, stepper: Stepper, state: State) -> None:
        if stepper.task.privacy is not None:
            raise UsageError(
                "the task clips single gradients (DP-SGD), which this attack does not follow",
                hint="swap-search, matching-pursuit and efficient-greedy do",
            )
        self._stepper = stepper
        self._parameters = {
            name: state.tensors[f"param/{name}"].to(stepper.device, stepper.dtype, copy=True).requires_grad_()
            for name, parameter in stepper.live.model.named_parameters()
            if parameter.requires_grad
        }
        self._detached = {name: tensor.detach() for name, tensor in self._parameters.items()}

    def gradient(
        self, inputs: torch.Tensor, labels: torch.Tensor, *, graph: bool = False
    ) -> Mapping[str, torch.Tensor]:
        """The mean loss's gradient by every parameter; with `graph`, differentiable by the inputs."""
        output = torch.func.functional_call(self._stepper.live.model, self._parameters, (inputs,))
        loss = self._stepper.task.loss(output, labels)
        found = torch.autograd.grad(loss, list(self._parameters.values()), create_graph=graph)
        return dict(zip(self._parameters, found, strict=True))

    def gradients(self, inputs: torch.Tensor, labels: torch.Tensor) -> Mapping[str, torch.Tensor]:
        """The gradients of several batches [r, b, ...] at once, differentiable by the inputs and by soft labels."""
        model = self._stepper.live.model
        if _has_batch_norm(model):
            each = [self.gradient(one, label, graph=True) for one, label in zip(inputs, labels, strict=True)]
            return {name: torch.stack([found[name] for found in each]) for name in self._parameters}

        def loss(parameters: dict[str, torch.Tensor], one: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
            return self._stepper.task.loss(torch.func.functional_call(model, parameters, (one,)), label)

        together = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0, 0), randomness="different")
        found: dict[str, torch.Tensor] = together(self._detached, inputs, labels)
        return found

    def along(self, inputs: torch.Tensor, labels: torch.Tensor, directions: torch.Tensor) -> torch.Tensor:
        """How the whole gradient changes as the inputs move along each of the directions [c, b, ...]: [c, width]."""

        def flat(moved: torch.Tensor) -> torch.Tensor:
            found = self.gradients(moved.unsqueeze(0), labels.unsqueeze(0))
            return torch.cat([tensor.flatten() for tensor in found.values()])

        def change(direction: torch.Tensor) -> torch.Tensor:
            moved: torch.Tensor = torch.func.jvp(flat, (inputs,), (direction,))[1]
            return moved

        out: torch.Tensor = torch.func.vmap(change)(directions)
        return out

    def __call__(
        self, inputs: torch.Tensor, labels: torch.Tensor, wanted: Mapping[str, torch.Tensor]
    ) -> torch.Tensor:
        found = self.gradient(inputs, labels, graph=True)
        return torch.stack([(found[name] - wanted[name]).square().sum() for name in wanted]).sum()


class GradientMap:
    """Inputs to the mean loss's gradient as one long vector, with its derivative in both directions."""

    def __init__(self, stepper: Stepper, state: State, labels: torch.Tensor) -> None:
        if _has_batch_norm(stepper.live.model):
            raise UsageError(
                "batch norm changes its buffers in every pass, which this derivative does not follow",
                hint="use a model without it",
            )
        self._stepper, self._labels = stepper, labels
        self._parameters = {
            name: state.tensors[f"param/{name}"].to(stepper.device, stepper.dtype)
            for name, parameter in stepper.live.model.named_parameters()
            if parameter.requires_grad
        }

    def __call__(self, inputs: torch.Tensor) -> torch.Tensor:
        def loss(parameters: dict[str, torch.Tensor]) -> torch.Tensor:
            output = torch.func.functional_call(self._stepper.live.model, parameters, (inputs,))
            return self._stepper.task.loss(output, self._labels)

        return torch.cat([tensor.flatten() for tensor in torch.func.grad(loss)(self._parameters).values()])

    def forward(self, inputs: torch.Tensor, change: torch.Tensor) -> torch.Tensor:
        """How the gradient moves with a change of the inputs."""
        moved: torch.Tensor = torch.func.jvp(self, (inputs,), (change,))[1]
        return moved

    def backward(self, inputs: torch.Tensor) -> Callable[[torch.Tensor], torch.Tensor]:
        """The transpose of `forward` at these inputs."""
        pull: Any = torch.func.vjp(self, inputs)[1]
        return lambda weights: pull(weights)[0]

    def matrix(self, inputs: torch.Tensor) -> torch.Tensor:
        """[parameters, b d]: the derivative written out, for networks where that matrix is small."""
        found: torch.Tensor = torch.func.jacrev(self, chunk_size=256)(inputs)
        return found.flatten(1)


def _has_batch_norm(model: nn.Module) -> bool:
    return any(isinstance(module, nn.modules.batchnorm._BatchNorm) for module in model.modules())

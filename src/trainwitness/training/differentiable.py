"""How far a batch's gradient is from a wanted one, as a function that can itself be differentiated by the inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

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

    def gradient(
        self, inputs: torch.Tensor, labels: torch.Tensor, *, graph: bool = False
    ) -> Mapping[str, torch.Tensor]:
        """The mean loss's gradient by every parameter; with `graph`, differentiable by the inputs."""
        output = torch.func.functional_call(self._stepper.live.model, self._parameters, (inputs,))
        loss = self._stepper.task.loss(output, labels)
        found = torch.autograd.grad(loss, list(self._parameters.values()), create_graph=graph)
        return dict(zip(self._parameters, found, strict=True))

    def __call__(
        self, inputs: torch.Tensor, labels: torch.Tensor, wanted: Mapping[str, torch.Tensor]
    ) -> torch.Tensor:
        found = self.gradient(inputs, labels, graph=True)
        return torch.stack([(found[name] - wanted[name]).square().sum() for name in wanted]).sum()


class GradientMap:
    """Inputs to the mean loss's gradient as one long vector, with its derivative in both directions."""

    def __init__(self, stepper: Stepper, state: State, labels: torch.Tensor) -> None:
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

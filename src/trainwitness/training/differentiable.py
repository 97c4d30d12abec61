"""How far a batch's gradient is from a wanted one, as a function that can itself be differentiated by the inputs."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from trainwitness.core.state import State
from trainwitness.training.stepper import Stepper


class GradientGap:
    """|| grad L(inputs, labels) - wanted ||^2 over all trained parameters at one State."""

    def __init__(self, stepper: Stepper, state: State) -> None:
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

    def jacobian(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """[parameters, b d]: how the gradient follows the inputs; for small networks, where that matrix is small."""

        def flat(values: torch.Tensor) -> torch.Tensor:
            return torch.cat([tensor.flatten() for tensor in self.gradient(values, labels, graph=True).values()])

        found: torch.Tensor = torch.autograd.functional.jacobian(flat, inputs)  # type: ignore[no-untyped-call]
        return found.flatten(1)

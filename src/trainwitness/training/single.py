"""The gradient of each example by itself, vectorised over a few examples (`torch.func`)."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

from trainwitness.core.errors import UsageError

Tensors = dict[str, torch.Tensor]
Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


class SingleGradients:
    """`gradients(parameters, inputs, labels)`: by parameter name [examples, ...], and the losses [examples]."""

    def __init__(self, model: nn.Module, loss: Loss) -> None:
        if any(isinstance(module, nn.modules.batchnorm._BatchNorm) for module in model.modules()):
            raise UsageError(
                "with batch norm an example has no gradient of its own",
                hint="what needs single gradients (some attacks, DP-SGD) needs a model without it",
            )
        self._model, self._loss = model, loss
        by_parameters = torch.func.grad_and_value(self._loss_of_one)
        self._all = torch.func.vmap(by_parameters, in_dims=(None, 0, 0), randomness="different")

    def __call__(
        self, parameters: Tensors, inputs: torch.Tensor, labels: torch.Tensor
    ) -> tuple[Tensors, torch.Tensor]:
        found: tuple[Tensors, torch.Tensor] = self._all(parameters, inputs, labels)
        return found

    def _loss_of_one(self, parameters: Tensors, one: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
        output = torch.func.functional_call(self._model, parameters, (one.unsqueeze(0),))
        return self._loss(output, label.unsqueeze(0))


def clipped(gradients: torch.Tensor, norm: float) -> torch.Tensor:
    """Each line [examples, parameters] cut to l2 norm `norm`: g min(1, norm / |g|)."""
    lengths = gradients.norm(dim=1, keepdim=True)
    factors = (norm / lengths.clamp(min=torch.finfo(gradients.dtype).tiny)).clamp(max=1)
    return torch.mul(gradients, factors)


def trained(model: nn.Module) -> Tensors:
    """The parameters that training changes, by name."""
    return {name: p.detach() for name, p in model.named_parameters() if p.requires_grad}


def flat(gradients: Tensors) -> torch.Tensor:
    """One line per example."""
    return torch.cat([tensor.flatten(1) for tensor in gradients.values()], dim=1)

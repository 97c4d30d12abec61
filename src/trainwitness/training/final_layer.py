"""The gradient of the training loss by the last linear layer alone: one forward pass, no graph below that layer."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

from trainwitness.core.errors import UsageError
from trainwitness.core.state import State
from trainwitness.training.apply_numerics import applied
from trainwitness.training.stepper import Stepper

AT_ONCE = 256
"""Examples in one forward pass; with batch norm the whole batch goes at once."""


@dataclass(frozen=True, eq=False)
class FinalPass:
    """A batch at the last layer: its mean gradient, and (for judging attacks) what went in and came out."""

    weight: torch.Tensor
    bias: torch.Tensor | None
    embeddings: torch.Tensor
    logits: torch.Tensor


def last_linear(model: nn.Module) -> tuple[str, nn.Linear]:
    """Name and module of the last linear layer."""
    found = [(name, module) for name, module in model.named_modules() if isinstance(module, nn.Linear)]
    if not found:
        raise UsageError("the model has no linear layer, so no labels can be read off its last one")
    return found[-1]


def final_pass(stepper: Stepper, state: State, inputs: torch.Tensor, labels: torch.Tensor) -> FinalPass:
    """The mean loss's gradient by weight and bias of the last linear layer at `state`."""
    model = stepper.live.model
    name, layer = last_linear(model)
    stepper.live.load_parameters(state)
    whole = any(isinstance(module, nn.modules.batchnorm._BatchNorm) for module in model.modules())
    at_once = len(inputs) if whole else AT_ONCE
    totals: dict[str, torch.Tensor] = {}
    seen: list[torch.Tensor] = []
    logits = []
    hook = layer.register_forward_pre_hook(lambda _, arguments: seen.append(arguments[0].detach()))
    own = [parameter_name(name, key) for key, _ in layer.named_parameters()]
    frozen = {key: parameter.detach() for key, parameter in model.named_parameters()}
    try:
        with applied(stepper.numerics):
            for first in range(0, len(inputs), at_once):
                leaves = {key: frozen[key].clone().requires_grad_() for key in own}
                some = slice(first, first + at_once)
                output = torch.func.functional_call(model, frozen | leaves, (inputs[some],))
                loss = stepper.task.loss(output, labels[some]) * (len(output) / len(inputs))
                for key, gradient in zip(leaves, torch.autograd.grad(loss, list(leaves.values())), strict=True):
                    totals[key] = totals[key] + gradient if key in totals else gradient
                logits.append(output.detach())
    finally:
        hook.remove()
    weight, bias = (parameter_name(name, key) for key in ("weight", "bias"))
    return FinalPass(totals[weight], totals.get(bias), torch.cat(seen), torch.cat(logits))


def parameter_name(layer: str, key: str) -> str:
    """The name of a layer's parameter in the whole model, which may be the layer itself."""
    return f"{layer}.{key}" if layer else key

"""The first layer, where it is fully connected: its gradient is a sum of outer products with the inputs."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

from trainwitness.core.errors import UsageError
from trainwitness.leakage.inputs.target import Target
from trainwitness.training.final_layer import parameter_name


@dataclass(frozen=True, eq=False)
class FirstLayer:
    """Weight [m, n] and bias [m] of the layer, and the mean gradients by both, in float64 on CPU."""

    weight: torch.Tensor
    bias: torch.Tensor
    weight_gradient: torch.Tensor
    bias_gradient: torch.Tensor
    rectified: bool
    """Whether a ReLU follows."""

    @classmethod
    def of(cls, target: Target) -> FirstLayer:
        """Refused unless the model begins with a linear layer with bias that reads every input value."""
        leaves = [(name, m) for name, m in target.stepper.live.model.named_modules() if not list(m.children())]
        at = next((k for k, (_, m) in enumerate(leaves) if list(m.parameters())), len(leaves))
        name, layer = leaves[at] if at < len(leaves) else ("", None)
        size = target.box.low.numel()
        if not isinstance(layer, nn.Linear) or layer.bias is None or layer.in_features != size:
            raise UsageError(
                "the model does not begin with a fully connected layer with bias",
                hint="dlg and ig reconstruct inputs of other models",
            )
        following = leaves[at + 1][1] if at + 1 < len(leaves) else None
        names = [parameter_name(name, key) for key in ("weight", "bias")]
        if any(key not in target.gradient for key in names):
            raise UsageError(f"{' and '.join(names)} are not among the gradients")
        own = [target.state.tensors[f"param/{key}"] for key in names]
        weight, bias, by_weight, by_bias = (t.double().cpu() for t in (*own, *(target.gradient[k] for k in names)))
        return cls(weight, bias, by_weight, by_bias, isinstance(following, nn.ReLU))

    def as_inputs(self, target: Target, lines: torch.Tensor) -> torch.Tensor:
        """Lines of n numbers as inputs with the domain's box as 0..1."""
        box = target.box
        return box.unit(lines.to(box.low.device, box.low.dtype).reshape(-1, *box.low.shape))

"""convert: a user's module and its exact twin."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_flatten

from trainwitness.core.errors import UsageError
from trainwitness.training.exact.arithmetic import arithmetic
from trainwitness.training.exact.witness import Witness

SUPPORTED: tuple[type[nn.Module], ...] = (
    nn.Linear, nn.Conv2d, nn.ReLU, nn.ELU, nn.Tanh, nn.Sigmoid, nn.GELU, nn.MaxPool2d, nn.AvgPool2d,
    nn.AdaptiveAvgPool2d, nn.Flatten, nn.Unflatten, nn.Identity, nn.Dropout, nn.BatchNorm1d, nn.BatchNorm2d,
    nn.LayerNorm, nn.Embedding, nn.Softmax, nn.MultiheadAttention, nn.modules.linear.NonDynamicallyQuantizableLinear,
    nn.TransformerEncoderLayer, nn.TransformerEncoder, nn.Sequential, nn.ModuleList, nn.ModuleDict,
    nn.CrossEntropyLoss, nn.BCEWithLogitsLoss,
)  # fmt: skip
_SETTINGS: dict[type[nn.Module], dict[str, Any]] = {
    nn.Conv2d: {"padding_mode": "zeros"},
    nn.GELU: {"approximate": "tanh"},
    nn.ELU: {"alpha": 1.0},
    nn.MaxPool2d: {"ceil_mode": False, "return_indices": False},
    nn.AvgPool2d: {"ceil_mode": False, "divisor_override": None},
    nn.Embedding: {"max_norm": None, "sparse": False, "scale_grad_by_freq": False},
    nn.MultiheadAttention: {"bias_k": None, "bias_v": None, "add_zero_attn": False},
}


def unsupported(model: nn.Module) -> list[str]:
    """Every module of PyTorch's in the model that has no exact twin, as `path: why`. A user's own may call anything;

    functions without a twin are refused when they are called.
    """
    found = []
    for path, module in model.named_modules():
        where, kind = path or "(the model)", type(module)
        if kind.__module__.startswith("torch.") and kind not in SUPPORTED:
            found.append(f"{where}: {kind.__name__}")
        for name, allowed in _SETTINGS.get(kind, {}).items():
            if getattr(module, name) != allowed:
                found.append(f"{where}: {kind.__name__} with {name}={getattr(module, name)} (only {allowed})")
    return found


def check_supported(model: nn.Module) -> None:
    """Raises one error that names everything unsupported."""
    found = unsupported(model)
    if found:
        raise UsageError(
            f"{len(found)} modules have no exact twin: " + "; ".join(found),
            hint="docs/exact-arithmetic.md lists what has one",
        )


class ExactModule(nn.Module):
    """A float64 copy of a model, whose forward and backward passes are exact; `model` is the copy.

    Names of parameters are the model's own, under `model.`; `load_back` puts the values into an ordinary module.
    """

    def __init__(self, model: nn.Module, seed: int = 0) -> None:
        super().__init__()
        check_supported(model)
        self.model = copy.deepcopy(model).double()
        self.witness = Witness(seed)
        """Of the last forward pass: gradient sums, once the backward pass has run."""
        self._seed, self._passes = seed, 0

    def forward(self, *inputs: Any, **settings: Any) -> Any:
        self.witness = Witness(self._seed + self._passes)
        self._passes += 1
        with arithmetic(self.witness):
            out = self.model(*inputs, **settings)
        self.witness.check()
        for tensor in tree_flatten(out)[0]:
            if isinstance(tensor, torch.Tensor) and tensor.requires_grad:
                tensor.register_hook(self._check_afterwards)  # type: ignore[no-untyped-call]
        return out

    def _check_afterwards(self, _: torch.Tensor) -> None:
        """Has the ranges of the backward pass looked at when it is over."""
        torch.autograd.Variable._execution_engine.queue_callback(self.witness.check)

    def load_back(self, model: nn.Module) -> nn.Module:
        """Copies the trained values into a module like the one that was converted, in its own precision."""
        with torch.no_grad():
            model.load_state_dict(self.model.state_dict())
        return model


def convert(model: nn.Module, *, seed: int = 0) -> ExactModule:
    """The exact twin of `model`, or one UsageError that lists every unsupported module with its path.

    >>> twin = convert(nn.Sequential(nn.Linear(4, 2), nn.ReLU()))
    >>> twin(torch.ones(1, 4, dtype=torch.float64)).dtype
    torch.float64
    """
    return ExactModule(model, seed)

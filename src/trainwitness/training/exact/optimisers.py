"""SGD and Adam as PyTorch defines them, every operation rounded by itself.

PyTorch's own steps call `add_(x, alpha=a)` and `addcmul_`, which some devices fuse and others do not. State, settings
and their names are PyTorch's, so a trace and a checkpoint look the same. Parameters and optimiser state are plain
float64: the grids of the forward pass are copies, so nothing is rounded away here but the last of 53 bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from trainwitness.core.errors import UsageError
from trainwitness.training.exact.elementary import square_root


class _OneByOne(torch.optim.Optimizer):
    """Updates one parameter after the other."""

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        if closure is not None:
            raise UsageError("an exact step takes no closure")
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._update(parameter, group)

    def _update(self, parameter: torch.Tensor, group: dict[str, Any]) -> None:
        raise NotImplementedError


class ExactSGD(_OneByOne, torch.optim.SGD):
    """g + decay p; v = momentum v + (1 - dampening) g (v = g at first); p - rate v, or rate (g + momentum v)."""

    def _update(self, parameter: torch.Tensor, group: dict[str, Any]) -> None:
        gradient = _direction(parameter, group)
        momentum = group["momentum"]
        if momentum:
            held = self.state[parameter].get("momentum_buffer")
            if held is None:
                held = self.state[parameter]["momentum_buffer"] = gradient.clone()
            else:
                held.mul_(momentum).add_(gradient * (1 - group["dampening"]))
            gradient = gradient + held * momentum if group["nesterov"] else held
        parameter.sub_(gradient * group["lr"])


class ExactAdam(_OneByOne, torch.optim.Adam):
    """Adam, or with `decoupled_weight_decay` AdamW; beta^t by multiplication, since libraries' powers differ."""

    def _update(self, parameter: torch.Tensor, group: dict[str, Any]) -> None:
        decoupled = group.get("decoupled_weight_decay", False)
        gradient = _direction(parameter, group if not decoupled else {**group, "weight_decay": 0})
        if decoupled and group["weight_decay"]:
            parameter.mul_(1 - group["lr"] * group["weight_decay"])
        held = self.state[parameter]
        if not held:
            held["step"] = torch.zeros(())
            held["exp_avg"], held["exp_avg_sq"] = torch.zeros_like(parameter), torch.zeros_like(parameter)
        held["step"] += 1
        first, second = group["betas"]
        held["exp_avg"].mul_(first).add_(gradient * (1 - first))
        held["exp_avg_sq"].mul_(second).add_(gradient * gradient * (1 - second))
        count = int(held["step"])
        spread = square_root(held["exp_avg_sq"]).mul_(1 / math.sqrt(1 - _power(second, count))).add_(group["eps"])
        parameter.sub_(held["exp_avg"] / spread * (group["lr"] / (1 - _power(first, count))))


def exact_optimizer(optimizer: torch.optim.Optimizer) -> torch.optim.Optimizer:
    """The exact twin of a fresh SGD, Adam or AdamW, for the same parameters."""
    kinds: dict[type, type[torch.optim.Optimizer]] = {
        torch.optim.SGD: ExactSGD,
        torch.optim.Adam: ExactAdam,
        torch.optim.AdamW: ExactAdam,
    }
    kind = kinds.get(type(optimizer))
    if kind is None:
        raise UsageError(f"{type(optimizer).__name__} has no exact twin", hint="use SGD, Adam or AdamW")
    twin = kind(optimizer.param_groups[0]["params"], lr=0.0)  # type: ignore[call-arg]
    twin.param_groups = optimizer.param_groups
    for group in twin.param_groups:
        if group.get("amsgrad") or group.get("maximize"):
            raise UsageError("amsgrad and maximize have no exact twin", hint="leave them out")
    return twin


def _direction(parameter: torch.Tensor, group: dict[str, Any]) -> torch.Tensor:
    gradient: torch.Tensor = parameter.grad  # type: ignore[assignment]
    decay = group["weight_decay"]
    return gradient + parameter * decay if decay else gradient


def _power(base: float, count: int) -> float:
    """base^count by squaring: the same roundings everywhere."""
    result = 1.0
    while count:
        if count & 1:
            result *= base
        base *= base
        count >>= 1
    return result

"""Activations by name, for models that are studied with several."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from torch import nn

Activation = Literal["relu", "leaky-relu", "swish", "sigmoid"]

_MODULES: dict[Activation, Callable[[], nn.Module]] = {
    "relu": nn.ReLU,
    "leaky-relu": nn.LeakyReLU,
    "swish": nn.SiLU,
    "sigmoid": nn.Sigmoid,
}


def activation(kind: Activation) -> nn.Module:
    """A fresh module of that kind."""
    return _MODULES[kind]()

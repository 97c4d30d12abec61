"""Initial parameters with the same bits on every platform and PyTorch version."""

from __future__ import annotations

import math
from typing import TypeVar

import torch
from torch import nn

from trainwitness.core.errors import UsageError
from trainwitness.core.seeds import derive, uniform
from trainwitness.tasks.task import Task

EMBEDDING_BOUND = 0.05


Layer = TypeVar("Layer", bound=nn.Module)


def with_gain(layer: Layer, gain: float) -> Layer:
    """The layer, to be initialised with `gain` times the usual bound."""
    layer.__dict__["initial_gain"] = gain
    return layer


def initial_model(task: Task) -> nn.Module:
    """The task's model with its initial parameters, on CPU in float32."""
    seed = derive(task.seed, "init")
    if task.initialisation == "portable":
        model = task.model()
        initialise(model, seed)
        return model
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return task.model()


def initialise(model: nn.Module, seed: int) -> None:
    """Uniform in [-bound, bound) from a generator keyed by (seed, parameter name).

    bound is 1/sqrt(fan in) for the weight and bias of linear and convolution layers (PyTorch's own default) and
    0.05 for embeddings and bare parameters. `with_gain` multiplies a layer's bound. Norm layers keep
    ones and zeros. Only multiplication, division and square root are used, which IEEE 754 rounds the same everywhere.
    """
    for path, module in model.named_modules():
        for name, parameter in module.named_parameters(path, recurse=False):
            bound = _bound(module, name)
            if bound is not None:
                values = uniform(derive(seed, name), parameter.numel()) * bound
                with torch.no_grad():
                    parameter.copy_(torch.from_numpy(values).reshape(parameter.shape))


def _bound(module: nn.Module, name: str) -> float | None:
    gain = float(getattr(module, "initial_gain", 1))
    if isinstance(module, nn.Linear):
        return gain / math.sqrt(module.in_features)
    if isinstance(module, (nn.Conv1d, nn.Conv2d, nn.Conv3d)):
        return gain / math.sqrt(math.prod(module.kernel_size) * module.in_channels // module.groups)
    if isinstance(module, (nn.LayerNorm, nn.GroupNorm, nn.modules.batchnorm._BatchNorm)):
        return None
    if isinstance(module, nn.Embedding) or not type(module).__module__.startswith("torch."):
        return EMBEDDING_BOUND
    raise UsageError(
        f"no portable initialisation for {type(module).__name__} (parameter {name})",
        hint='use initialisation="torch" for this task',
    )

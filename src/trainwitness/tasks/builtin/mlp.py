"""Fully connected ReLU networks on 28x28 images; option `hidden` gives the widths (default one layer of 32)."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Annotated

from pydantic import Field
from torch import nn

from trainwitness.tasks.builtin.common import Options, classification_task
from trainwitness.tasks.data import digits, mnist
from trainwitness.tasks.dataset import Dataset
from trainwitness.tasks.registry import register
from trainwitness.tasks.task import Task


def mlp(hidden: tuple[int, ...] = (32,)) -> nn.Module:
    """784 pixels -> hidden widths with ReLU -> 10 logits."""
    layers: list[nn.Module] = [nn.Flatten()]
    widths = (784, *hidden)
    for width, following in zip(widths, hidden, strict=False):
        layers += [nn.Linear(width, following), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(widths[-1], 10))


class MlpOptions(Options):
    """`hidden`: the widths of the hidden layers."""

    hidden: Annotated[int, Field(ge=1)] | Annotated[list[Annotated[int, Field(ge=1)]], Field(max_length=64)] = 32


def _task(data: tuple[Dataset, Dataset], options: MlpOptions) -> Task:
    hidden = options.hidden
    widths = tuple([hidden] if isinstance(hidden, int) else hidden)
    return classification_task(functools.partial(mlp, widths), data, options)


@register("mlp-mnist", about="ReLU network on MNIST", source=mnist.SOURCE, options=MlpOptions, model=mlp)
def mlp_mnist(data: Path | None, options: MlpOptions) -> Task:
    return _task(mnist.load(data), options)


@register("mlp-digits", about="ReLU network on digits", source=digits.SOURCE, options=MlpOptions, model=mlp)
def mlp_digits(data: Path | None, options: MlpOptions) -> Task:
    return _task(digits.load(data), options)

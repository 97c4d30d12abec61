"""Softmax (multinomial logistic) regression: one linear layer with bias."""

from __future__ import annotations

import functools
from pathlib import Path

from torch import nn

from trainwitness.tasks.builtin.common import Options, classification_task
from trainwitness.tasks.data import cifar10, digits, mnist
from trainwitness.tasks.registry import register
from trainwitness.tasks.task import Task


def softmax(inputs: int) -> nn.Module:
    """`inputs` pixels -> 10 logits."""
    return nn.Sequential(nn.Flatten(), nn.Linear(inputs, 10))


_small, _colour = functools.partial(softmax, 28 * 28), functools.partial(softmax, 3 * 32 * 32)


@register("softmax-mnist", about="softmax regression on MNIST", source=mnist.SOURCE, options=Options, model=_small)
def softmax_mnist(data: Path | None, options: Options) -> Task:
    return classification_task(_small, mnist.load(data), options)


@register(
    "softmax-cifar10", about="softmax regression on CIFAR-10", source=cifar10.SOURCE, options=Options, model=_colour
)
def softmax_cifar10(data: Path | None, options: Options) -> Task:
    return classification_task(_colour, cifar10.load(data), options)


@register("softmax-digits", about="softmax regression on digits", source=digits.SOURCE, options=Options, model=_small)
def softmax_digits(data: Path | None, options: Options) -> Task:
    return classification_task(_small, digits.load(data), options)

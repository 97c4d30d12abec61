"""LeNet-5 with max pooling: 61,706 parameters on 28x28 digits; option `activation` (default ReLU)."""

from __future__ import annotations

import functools
from pathlib import Path

from torch import nn

from trainwitness.tasks.builtin.activations import Activation, activation
from trainwitness.tasks.builtin.common import Options, classification_task
from trainwitness.tasks.data import cifar100, digits, mnist
from trainwitness.tasks.dataset import Dataset
from trainwitness.tasks.registry import register
from trainwitness.tasks.task import Task


def lenet(kind: Activation = "relu", *, channels: int = 1, classes: int = 10) -> nn.Module:
    """1x28x28 (padded) or 3x32x32 pixels -> logits."""
    return nn.Sequential(
        nn.Conv2d(channels, 6, 5, padding=2 if channels == 1 else 0),
        activation(kind),
        nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5),
        activation(kind),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(400, 120),
        activation(kind),
        nn.Linear(120, 84),
        activation(kind),
        nn.Linear(84, classes),
    )


_colour = functools.partial(lenet, channels=3, classes=100)


class LenetOptions(Options):
    """`activation`: after every layer but the last."""

    activation: Activation = "relu"


def _task(data: tuple[Dataset, Dataset], options: LenetOptions) -> Task:
    return classification_task(functools.partial(lenet, options.activation), data, options)


@register("lenet-mnist", about="LeNet-5 on MNIST", source=mnist.SOURCE, options=LenetOptions, model=lenet)
def lenet_mnist(data: Path | None, options: LenetOptions) -> Task:
    return _task(mnist.load(data), options)


@register(
    "lenet-digits", about="LeNet-5 on scikit-learn's digits", source=digits.SOURCE, options=LenetOptions, model=lenet
)
def lenet_digits(data: Path | None, options: LenetOptions) -> Task:
    return _task(digits.load(data), options)


@register("lenet-cifar100", about="LeNet-5 on CIFAR-100", source=cifar100.SOURCE, options=LenetOptions, model=_colour)
def lenet_cifar100(data: Path | None, options: LenetOptions) -> Task:
    model = functools.partial(_colour, options.activation)
    return classification_task(model, cifar100.load(data), options)

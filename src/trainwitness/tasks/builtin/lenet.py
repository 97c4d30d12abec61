"""LeNet-5 with ReLU and max pooling: 61,706 parameters."""

from __future__ import annotations

from pathlib import Path

from torch import nn

from trainwitness.tasks.builtin.common import Options, classification_task
from trainwitness.tasks.data import digits, mnist
from trainwitness.tasks.registry import register
from trainwitness.tasks.task import Task


def lenet() -> nn.Module:
    """1x28x28 -> 10 logits."""
    return nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(400, 120),
        nn.ReLU(),
        nn.Linear(120, 84),
        nn.ReLU(),
        nn.Linear(84, 10),
    )


@register("lenet-mnist", about="LeNet-5 on MNIST", source=mnist.SOURCE, options=Options, model=lenet)
def lenet_mnist(data: Path | None, options: Options) -> Task:
    return classification_task(lenet, mnist.load(data), options)


@register(
    "lenet-digits", about="LeNet-5 on scikit-learn's digits", source=digits.SOURCE, options=Options, model=lenet
)
def lenet_digits(data: Path | None, options: Options) -> Task:
    return classification_task(lenet, digits.load(data), options)

"""DLG's small convolution network with sigmoids: twice differentiable, and wide enough to give its input away."""

from __future__ import annotations

import functools
import math
from pathlib import Path

from torch import nn

from trainwitness.tasks.builtin.common import Options, classification_task
from trainwitness.tasks.data import cifar100, digits
from trainwitness.tasks.initial import with_gain
from trainwitness.tasks.registry import register
from trainwitness.tasks.task import Task

BOUND = 0.5
"""Every parameter starts uniform in [-0.5, 0.5), as in DLG: with smaller ones sigmoids hardly pass gradients."""


def sigmoid_net(channels: int = 1, side: int = 28, classes: int = 10) -> nn.Module:
    """Three 5x5 convolutions of 12 channels (strides 2, 2, 1) and one dense layer."""
    layers: list[nn.Module] = []
    width = channels
    for stride in (2, 2, 1):
        convolution = nn.Conv2d(width, 12, 5, stride=stride, padding=2)
        layers += [with_gain(convolution, BOUND * math.sqrt(25 * width)), nn.Sigmoid()]
        width = 12
    features = 12 * (-(-side // 4)) ** 2
    dense = with_gain(nn.Linear(features, classes), BOUND * math.sqrt(features))
    return nn.Sequential(*layers, nn.Flatten(), dense)


_colour = functools.partial(sigmoid_net, 3, 32, 100)


@register(
    "sigmoid-cifar100", about="DLG's network on CIFAR-100", source=cifar100.SOURCE, options=Options, model=_colour
)
def sigmoid_cifar100(data: Path | None, options: Options) -> Task:
    return classification_task(_colour, cifar100.load(data), options)


@register("sigmoid-digits", about="DLG's network on digits", source=digits.SOURCE, options=Options, model=sigmoid_net)
def sigmoid_digits(data: Path | None, options: Options) -> Task:
    return classification_task(sigmoid_net, digits.load(data), options)

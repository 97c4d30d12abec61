"""DLG's small convolution network with sigmoids: twice differentiable, and wide enough to give its input away."""

from __future__ import annotations

import functools
import math
from pathlib import Path

from pydantic import Field
from torch import nn

from trainwitness.tasks.builtin.common import Options, classification_task
from trainwitness.tasks.data import cifar100, digits
from trainwitness.tasks.initial import with_gain
from trainwitness.tasks.registry import register
from trainwitness.tasks.task import Task

BOUND = 0.5
"""Every parameter starts uniform in [-0.5, 0.5), as in DLG: with smaller ones sigmoids hardly pass gradients."""


WIDTH = 12


def sigmoid_net(width: int = WIDTH, *, channels: int = 1, side: int = 28, classes: int = 10) -> nn.Module:
    """Three 5x5 convolutions (strides 2, 2, 1) and one dense layer; DLG's have 12 channels."""
    layers: list[nn.Module] = []
    before = channels
    for stride in (2, 2, 1):
        convolution = nn.Conv2d(before, width, 5, stride=stride, padding=2)
        layers += [with_gain(convolution, BOUND * math.sqrt(25 * before)), nn.Sigmoid()]
        before = width
    features = width * (-(-side // 4)) ** 2
    dense = with_gain(nn.Linear(features, classes), BOUND * math.sqrt(features))
    return nn.Sequential(*layers, nn.Flatten(), dense)


def equations(width: int, count: int, *, channels: int = 3, side: int = 32) -> int:
    """At most how many numbers about `count` images the gradient holds; they have channels x side^2 unknowns each.

    The dense layer's gradient gives every image's last activations, and through the third convolution (as many
    outputs as inputs) those after the second: width x (side / 4)^2 an image. Given these, the third convolution's
    gradient says nothing new; those of the first two are 25 x channels x width and 25 x width^2 numbers about the
    whole batch. The first one's bias adds `width` numbers, and as many are lost: each output channel's product of the
    second one's weights with their gradient follows from the activations and errors behind it.
    """
    return count * width * (-(-side // 4)) ** 2 + 25 * channels * width + 25 * width**2


_colour = functools.partial(sigmoid_net, channels=3, side=32, classes=100)


class SigmoidOptions(Options):
    """`width`: channels of the convolutions."""

    width: int = Field(default=WIDTH, ge=1, le=4096)


@register(
    "sigmoid-cifar100",
    about="DLG's network on CIFAR-100",
    source=cifar100.SOURCE,
    options=SigmoidOptions,
    model=_colour,
)
def sigmoid_cifar100(data: Path | None, options: SigmoidOptions) -> Task:
    return classification_task(functools.partial(_colour, options.width), cifar100.load(data), options)


@register(
    "sigmoid-digits", about="DLG's network on digits", source=digits.SOURCE, options=SigmoidOptions, model=sigmoid_net
)
def sigmoid_digits(data: Path | None, options: SigmoidOptions) -> Task:
    return classification_task(functools.partial(sigmoid_net, options.width), digits.load(data), options)

"""VGG and ResNet shapes for 32x32 images with 100 classes; options `depth` and `activation`.

Convolutions start with He's bound, sqrt(6 / fan in): with the smaller default a network of 16 layers without norms
gives every image the same features.
"""

from __future__ import annotations

import functools
import math
from pathlib import Path
from typing import Literal

import torch
from torch import nn

from trainwitness.tasks.builtin.activations import Activation, activation
from trainwitness.tasks.builtin.common import Options, classification_task
from trainwitness.tasks.data import cifar100
from trainwitness.tasks.initial import with_gain
from trainwitness.tasks.registry import register
from trainwitness.tasks.task import Task

CLASSES = cifar100.CLASSES
_VGG = {11: (1, 1, 2, 2, 2), 13: (2, 2, 2, 2, 2), 16: (2, 2, 3, 3, 3), 19: (2, 2, 4, 4, 4)}
_RESNET = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3), 50: (3, 4, 6, 3), 152: (3, 8, 36, 3)}
_BOTTLENECK = 50
"""From this depth on, blocks are 1x1, 3x3, 1x1 with four times the width."""


def _convolution(inputs: int, outputs: int, side: int, stride: int = 1, *, bias: bool) -> nn.Conv2d:
    return with_gain(nn.Conv2d(inputs, outputs, side, stride=stride, padding=side // 2, bias=bias), math.sqrt(6))


def vgg(depth: int = 16, kind: Activation = "relu") -> nn.Module:
    """3x32x32 -> 100 logits: five groups of convolutions, each followed by pooling, then 512, 512 and 100 units."""
    layers: list[nn.Module] = []
    width = 3
    for group, count in enumerate(_VGG[depth]):
        for _ in range(count):
            following = min(64 << group, 512)
            layers += [_convolution(width, following, 3, bias=True), activation(kind)]
            width = following
        layers.append(nn.MaxPool2d(2))
    dense: list[nn.Module] = [nn.Flatten()]
    for _ in range(2):
        dense += [with_gain(nn.Linear(512, 512), math.sqrt(6)), activation(kind)]
    return nn.Sequential(*layers, *dense, nn.Linear(512, CLASSES))


class Block(nn.Module):
    """Convolutions with batch norm, added to their input."""

    def __init__(self, inputs: int, width: int, stride: int, kind: Activation, *, bottleneck: bool) -> None:
        super().__init__()
        outputs = 4 * width if bottleneck else width
        sides = [(inputs, width, 1, 1), (width, width, 3, stride), (width, outputs, 1, 1)]
        plain = [(inputs, width, 3, stride), (width, outputs, 3, 1)]
        layers: list[nn.Module] = []
        for first, second, side, step in sides if bottleneck else plain:
            layers += [_convolution(first, second, side, step, bias=False), nn.BatchNorm2d(second), activation(kind)]
        self.residual = nn.Sequential(*layers[:-1])
        self.shortcut = nn.Sequential()
        if stride > 1 or inputs != outputs:
            self.shortcut = nn.Sequential(
                _convolution(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)
            )
        self.after = activation(kind)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.after(self.residual(x) + self.shortcut(x))
        return out


def resnet(depth: int = 18, kind: Activation = "relu") -> nn.Module:
    """3x32x32 -> 100 logits: four groups of blocks of 64, 128, 256 and 512 channels, then the mean over pixels."""
    bottleneck = depth >= _BOTTLENECK
    layers: list[nn.Module] = [_convolution(3, 64, 3, bias=False), nn.BatchNorm2d(64), activation(kind)]
    inputs = 64
    for group, count in enumerate(_RESNET[depth]):
        width = 64 << group
        for number in range(count):
            stride = 2 if group and not number else 1
            layers.append(Block(inputs, width, stride, kind, bottleneck=bottleneck))
            inputs = 4 * width if bottleneck else width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, CLASSES))


class VggOptions(Options):
    """`depth`: layers with parameters; `activation`: after every layer but the last."""

    depth: Literal[11, 13, 16, 19] = 16
    activation: Activation = "relu"


class ResnetOptions(Options):
    """`depth`: layers with parameters; `activation`: after every norm."""

    depth: Literal[18, 34, 50, 152] = 18
    activation: Activation = "relu"


@register("vgg-cifar100", about="VGG-16 on CIFAR-100", source=cifar100.SOURCE, options=VggOptions, model=vgg)
def vgg_cifar100(data: Path | None, options: VggOptions) -> Task:
    model = functools.partial(vgg, options.depth, options.activation)
    return classification_task(model, cifar100.load(data), options)


@register(
    "resnet-cifar100", about="ResNet-18 on CIFAR-100", source=cifar100.SOURCE, options=ResnetOptions, model=resnet
)
def resnet_cifar100(data: Path | None, options: ResnetOptions) -> Task:
    model = functools.partial(resnet, options.depth, options.activation)
    return classification_task(model, cifar100.load(data), options)

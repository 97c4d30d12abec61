"""VGGmini: eight 3x3 convolutions and three dense layers with ELU, 5,742,986 parameters."""

from __future__ import annotations

from pathlib import Path

from torch import nn

from trainwitness.tasks.builtin.common import Options, classification_task
from trainwitness.tasks.data import cifar10
from trainwitness.tasks.registry import register
from trainwitness.tasks.task import Task


def vggmini() -> nn.Module:
    """3x32x32 -> 10 logits; pooling after the first three pairs of convolutions."""
    layers: list[nn.Module] = []
    channels = 3
    for width in (64, 128, 256, 512):
        for following in (width, width):
            layers += [nn.Conv2d(channels, following, 3, padding=1), nn.ELU()]
            channels = following
        if width < 512:
            layers.append(nn.MaxPool2d(2))
    dense = [nn.Flatten(), nn.Linear(8192, 128), nn.ELU(), nn.Linear(128, 64), nn.ELU(), nn.Linear(64, 10)]
    return nn.Sequential(*layers, *dense)


@register("vggmini-cifar10", about="VGGmini on CIFAR-10", source=cifar10.SOURCE, options=Options, model=vggmini)
def vggmini_cifar10(data: Path | None, options: Options) -> Task:
    return classification_task(vggmini, cifar10.load(data), options)

"""The fully connected network on Adult: 14 -> 100 ReLU -> 1 logit, 1,601 parameters."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from torch import nn

from trainwitness.tasks.builtin.common import Options, classification_task
from trainwitness.tasks.data import adult
from trainwitness.tasks.registry import register
from trainwitness.tasks.task import Task


def fcn() -> nn.Module:
    """14 fields -> the logit of an income above 50K."""
    return nn.Sequential(nn.Linear(14, 100), nn.ReLU(), nn.Linear(100, 1))


class FcnOptions(Options):
    """`normalise`: standardise the columns, or feed the numbers as they are (the papers' collapsed model)."""

    normalise: Literal["standard", "none"] = "standard"


@register("fcn-adult", about="ReLU network on Adult", source=adult.SOURCE, options=FcnOptions, model=fcn)
def fcn_adult(data: Path | None, options: FcnOptions) -> Task:
    return classification_task(fcn, adult.load(data, normalise=options.normalise), options, binary=True)

"""Golden digests: what exact arithmetic must give after a few steps of each task, on every machine."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

from trainwitness.core.errors import DataMissing
from trainwitness.core.numerics import Numerics
from trainwitness.tasks.data import digits
from trainwitness.tasks.registry import build_task
from trainwitness.tasks.schedule import ShuffledEpochs
from trainwitness.tasks.task import Option, Task, TaskSpec
from trainwitness.training.stepper import Stepper

ZOO = "zoo"


@dataclass(frozen=True)
class Golden:
    """The leaf of the last of some steps; it binds the State, and so every step before."""

    task: str
    steps: int
    leaf: str
    options: dict[str, Option] = field(default_factory=dict)

    def build(self, data: Path | None) -> Task:
        """The task, if its data is here."""
        if self.task == ZOO:
            return zoo_task()
        return build_task(TaskSpec(name=self.task, options=self.options), data=data)

    def compute(self, task: Task, numerics: Numerics) -> str:
        """The leaf as it comes out here."""
        stepper = Stepper(task, numerics.model_copy(update={"precision": "exact"}))
        for step in range(self.steps):
            stepper.run(task.schedule.batch(step))
        return stepper.leaf(self.steps - 1).hex()


GOLDEN = (
    Golden(ZOO, 3, "7d179b95ac620276a0fbfe330fc7795520bdde1f8e705f75f491f6c6c307ec10"),
    Golden(
        "softmax-digits",
        20,
        "0b89b5e9dc20bd83680c411dbdba7819745a3f05c85d698be66eb22032a74380",
        {"momentum": 0.9, "weight_decay": 0.001},
    ),
    Golden(
        "mlp-digits",
        20,
        "f2360d6ce2d5b71c12a57868b5da2646b6c7e775206976deea6c580b49f9f1b5",
        {"optimizer": "adam", "learning_rate": 0.001, "hidden": [64, 32]},
    ),
    Golden(
        "lenet-digits",
        5,
        "4ff50413bfd33c2c05ae6fe6171d0f5378fb3451ee0daa6bb6e295a9b17bad3d",
        {"batch_size": 60, "accumulate": 3, "learning_rate": 0.1},
    ),
    Golden("lenet-mnist", 10, "290d7dfea218cd5e2d3835c7a1df1e1798138ab850143c069ffe7a091dbb7bbb"),
    Golden("fcn-adult", 20, "27e9239aa9ee1d83c75da730f4d1dffa2067c314d237d0e219671d4198cd20c4", {"batch_size": 1000}),
    Golden(
        "transformer-imdb", 2, "ef8ceb739d633d428ff7da3721bae8de4ac22628a75e3c5e87e1f28093df60e2", {"batch_size": 10}
    ),
    Golden(
        "vggmini-cifar10", 2, "3e7721b1abef619d5c4addd8756d1688087e5c85e01c827384a2b5b267568dba", {"batch_size": 5}
    ),
)
"""They change only with the arithmetic itself. Say so in the CHANGELOG: older exact traces then verify no longer."""


def available(data: Path | None) -> Iterator[tuple[Golden, Task]]:
    """The cases whose data is here."""
    for golden in GOLDEN:
        try:
            yield golden, golden.build(data)
        except DataMissing:
            continue


class Zoo(nn.Module):
    """Every kind of layer once: 28x28 pixels -> 10 logits."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(1, 8, 3, stride=2, padding=1, bias=False),
            nn.BatchNorm2d(8),
            nn.ELU(),
            nn.Conv2d(8, 8, 3, padding=1, groups=4),
            nn.Tanh(),
            nn.MaxPool2d(3, 2, 1),
            nn.AvgPool2d(2, 1),
        )
        self.places = nn.Embedding(36, 8)
        self.norm = nn.LayerNorm(8)
        self.query, self.key, self.value = (nn.Linear(8, 8) for _ in range(3))
        self.head = nn.Sequential(nn.Dropout(0.25), nn.Linear(8, 16), nn.GELU("tanh"), nn.Linear(16, 10))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x).flatten(2).transpose(1, 2)
        x = self.norm(x + self.places(torch.arange(36, device=x.device)))
        heads = (layer(x).view(*x.shape[:2], 2, 4).transpose(1, 2) for layer in (self.query, self.key, self.value))
        x = x + F.scaled_dot_product_attention(*heads).transpose(1, 2).flatten(2)
        logits: torch.Tensor = self.head(x.mean(1))
        return logits


def zoo_task() -> Task:
    """The zoo on digits, with AdamW."""
    train, test = digits.load(None)
    return Task(
        model=Zoo,
        dataset=train,
        test=test,
        loss=F.cross_entropy,
        correct=lambda logits, labels: logits.argmax(1) == labels,
        optimizer=lambda parameters, rate: torch.optim.AdamW(parameters, lr=rate, weight_decay=0.01),
        schedule=ShuffledEpochs(len(train), 20, 0.002, seed=0),
        initialisation="portable",
    )

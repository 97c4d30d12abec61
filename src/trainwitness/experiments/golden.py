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
    Golden(ZOO, 3, "d11cb9189ace272cb8dd75e091fe83974840604a1d3d9f587b8e0ce049c5e553"),
    Golden(
        "softmax-digits",
        20,
        "b0f44c433b752f25bc38d39e5f54e5638b7a254af67a1bd3fab55b6cf9ac39b6",
        {"momentum": 0.9, "weight_decay": 0.001},
    ),
    Golden(
        "mlp-digits",
        20,
        "ff87204db9521446a81f9bf11d112085220a08212295d47640836c213dcd6e3e",
        {"optimizer": "adam", "learning_rate": 0.001, "hidden": [64, 32]},
    ),
    Golden(
        "lenet-digits",
        5,
        "a3b71d7362834819fd5e9c7d4a338d0405a839d7b1977b5c5084c7208e96b4f6",
        {"batch_size": 60, "accumulate": 3, "learning_rate": 0.1},
    ),
    Golden("lenet-mnist", 10, "17554f99b78345a4a33d1174172bc21c47b4cb42227d9e80859e4147f250ae77"),
    Golden("fcn-adult", 20, "266641671cf444deb90741bb41d193bcef44b21c728af0c40bb77b04049d5f87", {"batch_size": 1000}),
    Golden(
        "transformer-imdb", 2, "9bd67e6f1bf96dff53c653cfdfe0c8074092a8ac1c784acd9c0fc3a34023acb3", {"batch_size": 10}
    ),
    Golden(
        "vggmini-cifar10", 2, "398acd63933f007e7d687e28a6aa713313ca88de013296537c4de91c727eb83b", {"batch_size": 5}
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

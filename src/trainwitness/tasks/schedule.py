"""Schedule: learning rates and the order of rows, both recomputable."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from trainwitness.core.batch import Batch
from trainwitness.core.errors import UsageError
from trainwitness.core.seeds import derive, permutation


class Schedule(Protocol):
    """What a step is given besides the State."""

    def learning_rate(self, step: int) -> float:
        """The learning rate of a step."""
        ...

    def batch(self, step: int) -> Batch:
        """The rows of a step."""
        ...

    def describe(self) -> str:
        """The rule's name and version, for the manifest."""
        ...


@dataclass(frozen=True)
class ShuffledEpochs:
    """A fresh permutation of all rows each epoch, cut into batches; the remainder of an epoch is left out.

    >>> ShuffledEpochs(count=10, batch_size=4, rate=0.01, seed=0).batch(2).epoch
    1
    """

    count: int
    batch_size: int
    rate: float
    seed: int
    accumulate: int = 1
    """Micro-batches per step."""

    def __post_init__(self) -> None:
        if not 1 <= self.batch_size <= self.count:
            raise UsageError(
                f"batch size {self.batch_size}: the data set has {self.count} rows",
                hint=f"choose a batch size from 1 to {self.count}",
            )
        if self.accumulate < 1 or self.batch_size % self.accumulate:
            raise UsageError(
                f"a batch of {self.batch_size} cannot be cut into {self.accumulate} equal micro-batches",
                hint="choose a number of micro-batches that divides the batch size",
            )

    def learning_rate(self, step: int) -> float:  # noqa: ARG002 - the same for every step
        return self.rate

    def batch(self, step: int) -> Batch:
        epoch, within = divmod(step, self.count // self.batch_size)
        order = _order(self.seed, epoch, self.count)
        rows = order[within * self.batch_size : (within + 1) * self.batch_size]
        micros = tuple(tuple(micro.tolist()) for micro in np.split(rows, self.accumulate))
        return Batch(step=step, epoch=epoch, rows=micros)

    def describe(self) -> str:
        return "shuffled-epochs/1"


@functools.lru_cache(maxsize=2)
def _order(seed: int, epoch: int, count: int) -> npt.NDArray[np.int64]:
    return permutation(derive(seed, "order", epoch), count)

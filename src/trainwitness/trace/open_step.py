"""OpenStep: the step a recording is in the middle of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from trainwitness.core.errors import NotCapturable
from trainwitness.trace.format import Resume, StepRecord
from trainwitness.trace.plain import to_json
from trainwitness.training.live import Live


@dataclass
class OpenStep:
    """Micro-batches announced so far, and what the optimiser was told; it ends with the optimiser's step."""

    step: int
    rows: list[list[int]] = field(default_factory=list)
    epochs: list[int] = field(default_factory=list)
    """The epoch of each micro-batch."""
    groups: list[dict[str, Any]] | None = None
    stepped: bool = False

    def announce(self, rows: Sequence[int], epoch: int) -> None:
        """One more micro-batch."""
        self.rows.append(list(rows))
        self.epochs.append(epoch)

    def before_update(self, live: Live) -> None:
        """The optimiser is about to step: notes its settings, which a scheduler may change later."""
        if not self.rows:
            raise NotCapturable(
                f"step {self.step}: the optimiser stepped, but no batch was announced",
                hint="take every batch from recorder.loader(...), or name its rows with recorder.batch(rows)",
            )
        if self.stepped:
            raise NotCapturable(
                f"step {self.step}: the optimiser stepped twice on one batch",
                hint="announce the rows of each step with recorder.batch(rows)",
            )
        self.groups = live.groups()

    def record(self, live: Live, scheduler: torch.optim.lr_scheduler.LRScheduler | None, epoch: int) -> StepRecord:
        """What the trace keeps of this step; `epoch` is the one the loop goes on with."""
        return StepRecord(
            step=self.step,
            epoch=self.epochs[-1],
            rows=self.rows,
            groups=self.groups if self.groups is not None else live.groups(),
            state=None,
            resume=self._resume(live, scheduler, epoch),
        )

    def _resume(
        self, live: Live, scheduler: torch.optim.lr_scheduler.LRScheduler | None, epoch: int
    ) -> Resume | None:
        own = self.epochs.count(self.epochs[-1])
        spanning = own if own < len(self.epochs) else None
        if scheduler is not None:
            state = to_json(scheduler.state_dict())
            return Resume(epoch=epoch, batches=spanning, groups=live.groups(), scheduler=state)
        if spanning is None and epoch == self.epochs[-1]:
            return None
        return Resume(epoch=epoch, batches=spanning, groups=[])

"""Property `scheduled`: learning rates, settings and the order of rows are the task's own."""

from __future__ import annotations

from typing import Any

from trainwitness.core.verdict import Property
from trainwitness.tasks.task import Task
from trainwitness.trace.format import Manifest, StepRecord

_NOT_ARITHMETIC = {"foreach", "fused", "capturable", "differentiable", "initial_lr"}
"""Settings that choose an implementation, not a result."""
_ABSENT = {"decoupled_weight_decay": False}
"""What older versions of PyTorch, which lack a setting, do."""


class ScheduleCheck:
    """Compares each step with the Schedule; keeps the first difference of each kind."""

    def __init__(self, task: Task, manifest: Manifest, settings: list[dict[str, Any]]) -> None:
        self._task, self._settings = task, settings
        self._ordered = manifest.order == task.schedule.describe()
        self._stated, self._named = manifest.order, manifest.task is not None
        self._differences: dict[str, str] = {}

    def step(self, record: StepRecord) -> bool:
        """Notes how a step differs from the Schedule; False if the Schedule has no such step."""
        try:
            rate = self._task.schedule.learning_rate(record.step)
            expected_batch = self._task.schedule.batch(record.step)
        except LookupError:
            self._note("steps", f"step {record.step}: the schedule has no such step")
            return False
        for number, (mine, theirs) in enumerate(_pairs(self._settings, record.groups)):
            for key in sorted({*mine, *theirs} - _NOT_ARITHMETIC):
                expected = rate if key == "lr" else mine.get(key, _ABSENT.get(key))
                stated = theirs.get(key, _ABSENT.get(key))
                if stated != expected:
                    what = "learning rate" if key == "lr" else key
                    self._note(what, f"step {record.step}: {what} {stated} in group {number}, not {expected}")
        rows = tuple(map(tuple, record.rows))
        if self._ordered and (rows, record.epoch) != (expected_batch.rows, expected_batch.epoch):
            self._note("rows", f"step {record.step}: other rows than the schedule gives")
        return True

    def _note(self, kind: str, difference: str) -> None:
        self._differences.setdefault(kind, difference)

    def result(self, *, complete: bool) -> Property:
        """The property, after all steps."""
        if self._differences:
            return Property(standing="refuted", why="; ".join(self._differences.values()))
        if not self._ordered and self._named:
            mine = self._task.schedule.describe()
            why = f"the trace's order of rows is {self._stated}, that of the task it names is {mine}"
            return Property(standing="refuted", why=why)
        if not self._ordered:
            return Property(
                standing="unknown",
                why=f"the trace's order of rows ({self._stated}) is not one that the task can derive from a seed",
            )
        if not complete:
            return Property(standing="unknown", why="only some of the steps were looked at")
        return Property(standing="established", why=f"every step follows {self._stated} and the task's settings")


def _pairs(mine: list[dict[str, Any]], theirs: list[dict[str, Any]]) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    count = max(len(mine), len(theirs))
    return list(zip(mine + [{}] * (count - len(mine)), theirs + [{}] * (count - len(theirs)), strict=True))

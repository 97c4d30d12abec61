"""Property `scheduled`: learning rates, settings and the order of rows are the task's own."""

from __future__ import annotations

from typing import Any

from trainwitness.core.verdict import Property
from trainwitness.tasks.task import Task
from trainwitness.trace.format import Manifest, StepRecord

_NOT_ARITHMETIC = {"foreach", "fused", "capturable", "differentiable", "initial_lr", "decoupled_weight_decay"}
"""Settings that choose an implementation, not a result."""


class ScheduleCheck:
    """Compares each step with the Schedule; keeps the first difference of each kind."""

    def __init__(self, task: Task, manifest: Manifest, settings: list[dict[str, Any]]) -> None:
        self._task, self._settings = task, settings
        self._ordered = manifest.order == task.schedule.describe()
        self._stated = manifest.order
        self._differences: dict[str, str] = {}

    def step(self, record: StepRecord) -> None:
        """Notes how a step differs from the Schedule."""
        rate = self._task.schedule.learning_rate(record.step)
        for number, (mine, theirs) in enumerate(_pairs(self._settings, record.groups)):
            for key in sorted({*mine, *theirs} - _NOT_ARITHMETIC):
                expected = rate if key == "lr" else mine.get(key)
                if theirs.get(key) != expected:
                    what = "learning rate" if key == "lr" else key
                    self._note(
                        what, f"step {record.step}: {what} {theirs.get(key)} in group {number}, not {expected}"
                    )
        if self._ordered:
            expected_batch = self._task.schedule.batch(record.step)
            if (tuple(map(tuple, record.rows)), record.epoch) != (expected_batch.rows, expected_batch.epoch):
                self._note("rows", f"step {record.step}: other rows than the schedule gives")

    def _note(self, kind: str, difference: str) -> None:
        self._differences.setdefault(kind, difference)

    def result(self, *, complete: bool) -> Property:
        """The property, after all steps."""
        if self._differences:
            return Property(standing="refuted", why="; ".join(self._differences.values()))
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

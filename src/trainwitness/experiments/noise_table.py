"""One calibration as a line of a table; shared by the experiments about benign error."""

from __future__ import annotations

from typing import Any

from trainwitness.core.numerics import Numerics
from trainwitness.tasks.task import Task
from trainwitness.verification.calibration import Calibration, calibrate


def measure(task: Task, numerics: Numerics, steps: int, only: str | None = None) -> dict[str, Any]:
    """Ten honest recomputations of each step: largest error by source, and the raw errors to three digits."""
    found = calibrate(task, numerics=numerics, steps=steps, repeats=10, only=only)
    return {
        "steps": steps,
        "largest": {name: source.all.largest for name, source in found.sources.items()},
        "update": update_size(found),
        "unavailable": found.unavailable,
        "seconds": found.seconds,
        "numerics": found.numerics.model_dump(),
        "errors": {name: [float(f"{e:.3g}") for e in errors] for name, errors in found.errors(without=()).items()},
    }


def update_size(found: Calibration) -> float:
    """The largest update of the sampled steps, to see errors in proportion."""
    return max(sample.update for sample in found.samples)


def largest(measured: dict[str, Any], *sources: str) -> float | None:
    """The largest error among sources that were measured."""
    values = [measured["largest"][source] for source in sources if source in measured["largest"]]
    return max(values) if values else None

"""A forgery as plain arrays, so that anyone can check it without this package (docs/check_forgery.py)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from trainwitness.core.errors import StorageError
from trainwitness.core.forgery import Forgery
from trainwitness.forging.problem import Problem
from trainwitness.tasks.domain import Array


def arrays(problem: Problem, forgery: Forgery) -> dict[str, Array]:
    """Both batches' raw inputs and labels, the learning rate, and the parameters before the step as `param/NAME`."""
    dataset = problem.stepper.task.dataset
    inputs, labels = (tensor.numpy() for tensor in dataset.fetch(problem.rows))
    rows = [row for micro in forgery.batch.rows for row in micro]
    forged, forged_labels = (tensor.numpy() for tensor in dataset.fetch(rows, forgery.batch.carried))
    found: dict[str, Array] = {
        "original": inputs,
        "labels": labels.astype(np.uint8) if labels.max() < 256 else labels,
        "forged": forged,
        "forged_labels": forged_labels.astype(np.uint8) if forged_labels.max() < 256 else forged_labels,
        "learning_rate": np.array(problem.stepper.task.schedule.learning_rate(problem.batch.step)),
    }
    return found | {f"param/{name}": tensor.numpy() for name, tensor in problem.before.part("param").items()}


def write_arrays(path: Path, content: dict[str, Any]) -> None:
    """One compressed .npz file."""
    try:
        with path.open("wb") as file:
            np.savez_compressed(file, allow_pickle=False, **content)
    except OSError as error:
        raise StorageError(f"{path}: cannot be written: {error.strerror}") from error

"""Accuracy of a model on a data set, for reports."""

from __future__ import annotations

import torch

from trainwitness.training.apply_numerics import applied
from trainwitness.training.stepper import Stepper, fetch


def accuracy(stepper: Stepper, *, chunk: int = 1000) -> float | None:
    """The share of test rows the live model classifies correctly; None where the task has no test rows."""
    task, model = stepper.task, stepper.live.model
    if task.test is None or task.correct is None:
        return None
    right = 0
    model.eval()
    try:
        with torch.no_grad(), applied(stepper.numerics):
            for start in range(0, len(task.test), chunk):
                rows = range(start, min(start + chunk, len(task.test)))
                inputs, labels = fetch(task.test, rows, stepper.device, stepper.dtype)
                right += int(task.correct(model(inputs), labels).sum())
    finally:
        model.train()
    return right / len(task.test)

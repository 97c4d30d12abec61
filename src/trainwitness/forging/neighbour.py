"""neighbour: every example by the nearest one of its class, in pixels or in features (Zhang et al. 2024)."""

from __future__ import annotations

from typing import Literal

import numpy as np
import torch

from trainwitness.core.errors import UsageError
from trainwitness.forging.forger import Choice
from trainwitness.forging.problem import Problem
from trainwitness.training.features import features

Space = Literal["pixels", "features"]


def forge(problem: Problem, space: Space = "pixels") -> Choice:
    """Neighbours are sought in the whole pool; one row is used once."""
    labels = problem.stepper.task.dataset.labels
    pool = np.array(problem.pool)
    leaving = np.array(problem.leaving)
    near, far = _points(problem, leaving, space), _points(problem, pool, space)
    free, chosen = np.ones(len(pool), bool), []
    for row, point in zip(leaving, near, strict=True):
        same = np.flatnonzero(free & (labels[pool] == labels[row]))
        if not len(same):
            raise UsageError(
                f"no row of class {labels[row]} is left in the pool to replace row {row}", hint="take a larger pool"
            )
        best = same[int((far[same] - point).square().sum(1).argmin())]
        free[best] = False
        chosen.append(int(pool[best]))
    return Choice(problem.batch_with(chosen), gradients=0, candidates=1)


def _points(problem: Problem, rows: np.ndarray, space: Space) -> torch.Tensor:
    if space == "features":
        return features(problem.stepper, problem.before, rows.tolist())
    inputs, _ = problem.stepper.task.dataset.fetch(rows.tolist())
    return problem.stepper.task.dataset.prepare(inputs, torch.float32).reshape(len(rows), -1).float()

"""Fig. 4 and 11: forging one example. Does the error follow the distance to other examples, or the example's loss?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from trainwitness.experiments.attacked import at_stages, problem_at
from trainwitness.experiments.experiment import Setting
from trainwitness.forging.forge import attack
from trainwitness.forging.problem import Problem
from trainwitness.tasks.dataset import Dataset
from trainwitness.tasks.task import Task
from trainwitness.training.stepper import Stepper, fetch

PAIRS = 200
"""Of every class."""


def run(setting: Setting) -> dict[str, Any]:
    rows: list[dict[str, Any]] = []
    measured: dict[str, Any] = {}
    names = ("vggmini-cifar10",) if setting.cuda else ("lenet-mnist", "fcn-adult")[: 1 if setting.quick else 2]
    examples, pool = (12, 200) if setting.quick else (40, 200) if setting.cuda else (60, 1000)
    for name in names:
        task = setting.task(name, batch_size=100)
        for stage in (20,) if setting.quick else (300,) if setting.cuda else (300, 3000):
            _, trained = next(at_stages(task, setting.numerics(), [stage]))
            errors, losses, distances = [], [], []
            for k in range(examples):
                setting.advance(f"{name}, step {stage}, example {k} of {examples}")
                problem = problem_at(trained, stage, 1, pool_size=pool, seed=k)
                errors.append(attack(problem, "swap-search").error)
                losses.append(_loss(problem.stepper, problem))
                distances.append(_nearest(problem))
            for what, values in (("loss", losses), ("distance to the nearest of its class", distances)):
                rho, low, high = spearman(values, errors)
                rows.append(
                    {"task": task.spec.name if task.spec else name, "step": stage, "examples": examples}
                    | {"error against": what, "rho": rho, "95% from": low, "to": high}
                )
            measured[f"{name}/{stage}"] = {"errors": errors, "losses": losses, "distances": distances}
        setting.advance(f"{name}, pairwise distances")
        measured[f"{name}/pairwise distances"] = _pairwise(task)
    notes = [
        f"Spearman's rho of {examples} single-example forgeries (the best of {pool} rows), interval by Fisher's "
        "transformation",
        "paper: the error follows the loss (Fig. 11) and not the distance (Fig. 4b)",
        *(
            f"{key} (Fig. 4a), {found['pairs']} pairs within classes: mean {found['mean']:.2f}, 5% to 95% "
            f"{found['5%']:.2f} to {found['95%']:.2f}, smallest {found['smallest']:.2f}"
            for key, found in measured.items()
            if "pairwise" in key
        ),
    ]
    return {"rows": rows, "notes": notes, "measured": measured}


def spearman(one: list[float], other: list[float]) -> tuple[float, float, float]:
    """Rank correlation and its 95% interval."""
    from scipy.stats import spearmanr

    rho = float(spearmanr(one, other).statistic)
    middle, half = np.arctanh(np.clip(rho, -0.999999, 0.999999)), 1.96 * 1.03 / np.sqrt(len(one) - 3)
    return rho, float(np.tanh(middle - half)), float(np.tanh(middle + half))


def _loss(stepper: Stepper, problem: Problem) -> float:
    stepper.live.load_parameters(problem.before)
    inputs, labels = fetch(stepper.task.dataset, problem.leaving, stepper.device, stepper.dtype)
    with torch.no_grad():
        return float(stepper.task.loss(stepper.live.model(inputs), labels))


def _nearest(problem: Problem) -> float:
    data = problem.stepper.task.dataset
    row, pool = problem.leaving[0], np.array(problem.pool)
    same = pool[data.labels[pool] == data.labels[row]]
    return float(np.sqrt(((_points(data, same) - _points(data, [row])) ** 2).sum(1)).min())


def _pairwise(task: Task) -> dict[str, float]:
    """Fig. 4a: l2 distances between different examples of the same class."""
    data, rng, found = task.dataset, np.random.default_rng(0), []
    for label in np.unique(data.labels):
        members = np.flatnonzero(data.labels == label)
        first = rng.integers(len(members), size=PAIRS)
        second = (first + rng.integers(1, len(members), size=PAIRS)) % len(members)
        gaps = _points(data, members[first]) - _points(data, members[second])
        found += np.sqrt((gaps**2).sum(1)).tolist()
    quantiles = np.quantile(found, (0.05, 0.5, 0.95))
    return {"pairs": len(found), "mean": float(np.mean(found)), "smallest": min(found)} | dict(
        zip(("5%", "50%", "95%"), map(float, quantiles), strict=True)
    )


def _points(data: Dataset, rows: Sequence[int] | np.ndarray) -> np.ndarray:
    """Inputs as the model sees them, flat."""
    inputs, _ = data.fetch([int(row) for row in rows])
    return data.prepare(inputs, torch.float64).reshape(len(rows), -1).numpy()

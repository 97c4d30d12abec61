"""Fig. 4 and 11: forging one example. Does the error follow the distance to other examples, or the example's loss?"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from trainwitness.experiments.attacked import at_stages, problem_at
from trainwitness.experiments.experiment import Setting
from trainwitness.forging.forge import attack
from trainwitness.forging.problem import Problem
from trainwitness.training.stepper import Stepper, fetch


def run(setting: Setting) -> dict[str, Any]:
    rows, measured = [], {}
    names = ("lenet-mnist",) if setting.quick or not setting.cuda else ("vggmini-cifar10",)
    examples, pool = (12, 200) if setting.quick else (100, 1000) if not setting.cuda else (40, 200)
    for name in names:
        task = setting.task(name, batch_size=100)
        for stage in (20,) if setting.quick else (300, 1000, 3000) if not setting.cuda else (300,):
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
        rows.append(_pairwise(setting, name))
    notes = [
        f"Spearman's rho of {examples} single-example forgeries (the best of {pool} rows), interval by Fisher's "
        "transformation",
        "paper: the error follows the loss (Fig. 11) and not the distance (Fig. 4b)",
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
    gaps = (data.inputs[same].astype(np.float64) - data.inputs[row].astype(np.float64)).reshape(len(same), -1) / 255
    return float(np.sqrt((gaps**2).sum(1)).min())


def _pairwise(setting: Setting, name: str) -> dict[str, Any]:
    """Fig. 4a: l2 distances between examples of the same class."""
    data = setting.task(name).dataset
    rng, found = np.random.default_rng(0), []
    for label in np.unique(data.labels):
        members = np.flatnonzero(data.labels == label)
        pairs = rng.choice(members, (200, 2))
        gaps = (data.inputs[pairs[:, 0]].astype(float) - data.inputs[pairs[:, 1]].astype(float)) / 255
        found += np.sqrt((gaps.reshape(200, -1) ** 2).sum(1)).tolist()
    return {
        "task": name, "step": None, "examples": len(found), "error against": "(pairwise distance: mean, 5%, 95%)",
        "rho": float(np.mean(found)), "95% from": float(np.quantile(found, 0.05)),
        "to": float(np.quantile(found, 0.95)),
    }  # fmt: skip

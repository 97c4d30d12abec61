"""Beyond the papers: valid forged batches, against their conjecture, and how far they go."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from torch import nn

from trainwitness.core.errors import UsageError
from trainwitness.core.forgery import Forgery
from trainwitness.experiments.attacked import at_stages, problem_at
from trainwitness.experiments.experiment import Setting
from trainwitness.forging.forge import attack
from trainwitness.forging.problem import Problem
from trainwitness.tasks.schedule import ShuffledEpochs
from trainwitness.tasks.task import Task
from trainwitness.verification.noise import NOT_HARDWARE
from trainwitness.verification.step_noise import step_noise


@dataclass(frozen=True)
class Case:
    """One forgery to be tried."""

    about: str
    task: str
    batch: int = 100
    hidden: int | None = None
    stage: int = 100
    classes: int | None = None
    """Only the first so many classes."""
    settings: dict[str, Any] = field(default_factory=dict)


def cases(quick: bool) -> Iterator[Case]:
    """The goals first, then one thing at a time."""
    if quick:
        yield Case("goal", "softmax-mnist", batch=60, stage=5, settings={"exponents": (9,), "nudges": 0})
        return
    calm = {"calm": 1.0}
    narrow = {"calm": 1.0, "nudges": 200, "exponents": tuple(range(1, 11)), "margins": (8.0,)}
    yield Case("goal", "softmax-mnist", settings={**calm, "nudges": 8000, "setting": 300})
    yield Case("goal, last third", "softmax-cifar10", settings={**calm, "last": 1024})
    yield Case("goal, all pixels", "softmax-cifar10", settings={**calm, "nudges": 1000})
    yield Case("goal", "mlp-mnist", batch=300, hidden=32, settings={**narrow, "setting": 250})
    for size in (25, 50, 200):
        yield Case("batch size", "softmax-mnist", batch=size, settings={**calm, "nudges": 0})
    yield Case("inputs", "softmax-digits", settings={**calm, "nudges": 0})
    for classes in (2, 5):
        yield Case("classes", "softmax-mnist", classes=classes, settings={**calm, "nudges": 0})
    for stage in (0, 1000):
        yield Case("stage", "softmax-mnist", stage=stage, settings={**calm, "nudges": 0})
    for hidden, size in ((4, 100), (8, 150), (16, 250)):
        yield Case("width", "mlp-mnist", batch=size, hidden=hidden, settings=narrow)
    for name in ("softmax-mnist", "softmax-cifar10"):
        for scale in (6, 10, 14):
            steering = {"towards": "any", "calm": 0.0, "nudges": 0, "exponents": (scale,), "margins": (3.0,)}
            yield Case(f"steering, scale 2^{scale}", name, settings=steering)


def run(setting: Setting) -> dict[str, Any]:
    rows: list[dict[str, Any]] = []
    for case in cases(setting.quick):
        options = {"batch_size": case.batch} | ({} if case.hidden is None else {"hidden": case.hidden})
        task = setting.task(case.task, **options)
        name = task.spec.name if task.spec else case.task
        if case.classes is not None:
            task = of_first_classes(task, case.classes)
        setting.advance(f"{case.about}: {name}, b = {case.batch}")
        _, trained = next(at_stages(task, setting.numerics(), [case.stage]))
        problem = problem_at(trained, case.stage, case.batch, pool_size=3 * case.batch, seed=0, seconds=600.0)
        row = {"about": case.about, "task": name, "batch": case.batch, "hidden": case.hidden, "stage": case.stage}
        row |= {"inputs": task.dataset.inputs[0].size, "classes": int(task.dataset.labels.max()) + 1}
        try:
            forgery = attack(problem, "lattice", **case.settings)
        except UsageError as error:
            rows.append(row | {"why_not": error.message})
            continue
        rows.append(row | _measured(problem, forgery))
    notes = [
        "every forged image has whole pixels in 0..255 and its original label; the error is that of the float32 step",
        "order: largest error of 20 other orders of the honest batch; noise: largest of all honest recomputations",
        "change: grey levels (rms over the image), least changed image and mean; steered: how much of the way to the "
        "chosen other images, by l2",
        "not applicable: fcn-adult (the first layer has rank 14 on 14 fields, so no change escapes it) and "
        "transformer-imdb (tokens enter by a table: a changed token is another row of it, never a small change)",
    ]
    return {"rows": rows, "notes": notes}


def of_first_classes(task: Task, count: int) -> Task:
    """Softmax regression on the rows of the first classes alone."""
    kept = task.dataset.labels < count
    data = replace(task.dataset, inputs=task.dataset.inputs[kept], labels=task.dataset.labels[kept])
    model = functools.partial(_softmax, task.dataset.inputs[0].size, count)
    schedule = ShuffledEpochs(len(data), task.schedule.batch(0).size, task.schedule.learning_rate(0), task.seed)
    return replace(task, dataset=data, model=model, schedule=schedule, spec=None)


def _softmax(inputs: int, classes: int) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(inputs, classes))


def _measured(problem: Problem, forgery: Forgery) -> dict[str, Any]:
    dataset = problem.stepper.task.dataset
    rows = list(forgery.batch.rows[0])
    honest, goal = (dataset.inputs[r].reshape(len(r), -1).astype(np.float64) for r in (problem.rows, rows))
    forged = dataset.fetch(rows, forgery.batch.carried)[0].numpy().reshape(honest.shape).astype(np.float64)
    change = np.sqrt(((forged - honest) ** 2).mean(1))
    noise = step_noise(problem.stepper.task, problem.stepper.numerics, problem.before, problem.after, problem.batch)
    return {
        "changed": int((change > 0).sum()), "change_least": float(change.min()), "change_mean": float(change.mean()),
        "steered": 1 - float(np.linalg.norm(forged - goal) / np.linalg.norm(honest - goal)),
        "error": forgery.error, "float64": forgery.residual, "order": noise["order"],
        "noise": max(value for source, value in noise.items() if source not in NOT_HARDWARE),
        "times_order": forgery.error / noise["order"] if noise["order"] else None,
        "update": forgery.update, "seconds": forgery.cost.seconds,
    }  # fmt: skip

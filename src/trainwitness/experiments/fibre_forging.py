"""Beyond the papers: batches with the same gradient where no layer has a null space, and what rounding leaves."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from torch import nn

from trainwitness.experiments.attacked import at_stages, problem_at
from trainwitness.experiments.experiment import Setting
from trainwitness.forging.forge import attack
from trainwitness.forging.problem import Problem
from trainwitness.tasks.task import Task

CROP, PIXELS = slice(12, 16), 16
"""The middle of a digit: fewer pixels than the first layer has units."""
UNITS = 20


def _wide(activation: Callable[[], nn.Module]) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(PIXELS, UNITS), activation(), nn.Linear(UNITS, 10))


def run(setting: Setting) -> dict[str, Any]:
    rows: list[dict[str, Any]] = []
    for activation in (nn.Softplus, nn.ReLU):
        task = _cropped(setting.task("softmax-mnist", batch_size=100), activation)
        setting.advance(f"{PIXELS} -> {UNITS} -> 10, {activation.__name__}")
        problem = _problem(task, setting)
        for strength in (0.2,) if setting.quick else (0.05, 0.2, 0.5):
            name = f"{PIXELS} -> {UNITS} {activation.__name__} -> 10"
            rows.append(_row(name, problem, {"strength": strength, "steps": 1 if setting.quick else 6}))
    if not setting.quick:
        setting.advance("lenet-mnist")
        lenet = _problem(setting.task("lenet-mnist", batch_size=100), setting)
        for strength in (0.0001, 0.01):
            rows.append(_row("LeNet-5", lenet, {"strength": strength, "steps": 1, "iterations": 50, "off": 1.0}))
    notes = [
        "strength: how much of the way to other images of the same classes was asked for; `real` and `float64`: "
        "error of the real-valued batch in the step's arithmetic and in float64",
        "moved: grey levels (rms) of the rounded batch; pieces that Newton does not bring back are halved",
        "rounded: error of the same batch rounded to whole pixels in 0..255; swap: error of swap-search, which only "
        "exchanges rows",
        "LeNet: one Newton step is a least-squares problem in 61,706 equations, of which 50 iterations of LSMR solve "
        "little",
    ]
    return {"rows": rows, "notes": notes}


def _cropped(task: Task, activation: Callable[[], nn.Module]) -> Task:
    data = replace(task.dataset, inputs=task.dataset.inputs[:, :, CROP, CROP].copy())
    return replace(task, dataset=data, model=functools.partial(_wide, activation), spec=None)


def _problem(task: Task, setting: Setting) -> Problem:
    stage = 5 if setting.quick else 100
    _, trained = next(at_stages(task, setting.numerics(), [stage]))
    return problem_at(trained, stage, 100, pool_size=500, seed=0, seconds=240.0)


def _row(name: str, problem: Problem, settings: dict[str, Any]) -> dict[str, Any]:
    real = attack(problem, "fibre", **settings)
    whole = attack(problem, "fibre", **settings, whole=True)
    dataset = problem.stepper.task.dataset
    forged = dataset.fetch(whole.batch.rows[0], whole.batch.carried)[0].double()
    moved = float((forged - dataset.fetch(problem.rows)[0]).square().mean().sqrt())
    return {
        "network": name, "parameters": problem.gradients().width, "numbers": problem.batch.size
        * dataset.inputs[0].size, "strength": settings["strength"],
        "moved": moved, "real": real.error, "float64": real.residual, "rounded": whole.error if moved else None,
        "swap": attack(problem, "swap-search").error, "update": real.update, "seconds": real.cost.seconds,
    }  # fmt: skip

"""Training under DP-SGD: what forging needs when the noise's seed is recorded, and what is left when it is not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch

from trainwitness.core.batch import Batch
from trainwitness.core.numerics import Numerics
from trainwitness.core.seeds import derive, permutation
from trainwitness.experiments.attacked import at_stages, problem_at
from trainwitness.experiments.experiment import Setting
from trainwitness.forging.clipped_change import change_of_same_length
from trainwitness.forging.epochs import honest_run
from trainwitness.forging.forge import attack
from trainwitness.forging.problem import Problem
from trainwitness.forging.relax import null_projection
from trainwitness.tasks.task import Task
from trainwitness.training.first_layer import first_layer, input_scale
from trainwitness.training.per_example import PerExample
from trainwitness.training.single import trained
from trainwitness.training.stepper import Stepper

CLIP = 1.0
NOISES = (0.0, 1.0, 4.0)
SIZE = 100


def run(setting: Setting) -> dict[str, Any]:
    rows: list[dict[str, Any]] = []
    stage, pool = (10, 300) if setting.quick else (200, 2000)
    for name in ("softmax-mnist",) if setting.quick else ("softmax-mnist", "lenet-mnist"):
        for noise in (0.0, 1.0) if setting.quick else NOISES:
            setting.advance(f"{name}, noise {noise}")
            task = setting.task(name, batch_size=SIZE, clip=CLIP, noise=noise)
            _, run_so_far = next(at_stages(task, setting.numerics(), [stage]))
            named = task.spec.name if task.spec else name
            rows.append({"task": named, "clip": CLIP, "noise": noise, **_measure(run_so_far, stage, pool)})
    notes = [
        f"b = {SIZE}, step {stage}; errors are l2 errors of the step function, replacements from {pool} rows",
        "benign: the batch in other orders. one, all: swap-search with one or all examples replaced, seed recorded",
        "null space: real inputs of softmax regression changed in Proposition 2's null spaces (first step, float64); "
        "equal lengths: the same with every gradient's length kept, which clipping asks for",
        "z of ...: seed not recorded; how many standard deviations the length of what would have to be noise is off "
        "when the honest batch, another example, or other examples are claimed",
        "direction: the most by which one example shifts the noise, in its standard deviations: "
        "|clip(g)| / (noise C)",
    ]
    return {"rows": rows, "notes": notes}


def _measure(run_so_far: Stepper, stage: int, pool: int) -> dict[str, Any]:
    one, every = (problem_at(run_so_far, stage, count, pool_size=pool, seed=0) for count in (1, SIZE))
    single = attack(one, "swap-search")
    return {
        "update": single.update,
        "benign": max(every.error(_reordered(every.batch, number)) for number in range(5)),
        "one": single.error,
        "all": attack(every, "swap-search").error,
        **_exact(run_so_far.task),
        **_without_seed(one, every),
    }


def _reordered(batch: Batch, number: int) -> Batch:
    order = permutation(derive(number, "order"), batch.size)
    return replace(batch, rows=(tuple(batch.rows[0][k] for k in order),))


def _exact(task: Task) -> dict[str, float | None]:
    """float64 errors of the first step when real inputs move by 0.1 on average, without and with equal lengths."""
    if task.privacy is None or len(list(task.model().parameters())) != 2:  # not softmax regression
        return {"null space": None, "equal lengths": None}
    run = honest_run(task, SIZE, SIZE, epochs=1)
    layer = first_layer(Stepper(run.task), run.states[0], run.task.schedule.batch(0))
    wanted = np.random.default_rng(0).normal(0, 0.1, layer.inputs.shape)
    changes = {
        "null space": null_projection(layer.seen, layer.errors)(wanted),
        "equal lengths": change_of_same_length(layer, task.privacy, wanted),
    }
    found: dict[str, float | None] = {}
    for name, change in changes.items():
        values = run.values
        values[run.seen[0].rows] += change / input_scale(task.dataset)[0]
        found[name] = run.errors(values, Numerics(precision="float64"))[0]
    return found


def _without_seed(one: Problem, every: Problem) -> dict[str, float | None]:
    """What would have to be noise if another batch were claimed: how far its length is off that of noise."""
    task = one.stepper.task
    if task.privacy is None or not task.privacy.noise:
        return {"z of honest": None, "z of one": None, "z of all": None, "direction": None}
    deviation = task.privacy.noise * task.privacy.clip
    gradients = PerExample(one.stepper, one.before)
    names = [f"param/{name}" for name in trained(one.stepper.live.model)]  # the order of single gradients
    moved = torch.cat([(one.before.tensors[n] - one.after.tensors[n]).double().flatten() for n in names])
    total = moved * one.batch.size / task.schedule.learning_rate(one.batch.step)

    def z(rows: list[int]) -> float:
        noise = (total - gradients.total(rows)) / deviation
        return float((noise.square().sum() - len(noise)) / (2 * len(noise)) ** 0.5)

    other = list(one.rows)
    other[one.positions[0]] = one.pool[0]
    lengths = gradients.matrix(one.rows).double().norm(dim=1)
    return {
        "z of honest": z(one.rows), "z of one": z(other), "z of all": z(list(every.pool[:SIZE])),
        "direction": float(lengths.max() / deviation),
    }  # fmt: skip

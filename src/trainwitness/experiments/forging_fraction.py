"""Fig. 3 and 14: error against the forging fraction and the batch size, for published attacks and ours."""

from __future__ import annotations

import statistics
from typing import Any

from trainwitness.experiments.attacked import SECONDS, at_stages, problem_at
from trainwitness.experiments.experiment import Setting
from trainwitness.forging.forge import attack

ATTACKS: dict[str, dict[str, Any]] = {
    "efficient-greedy": {"candidates": 1000},
    "neighbour": {},
    "swap-search": {},
}
"""Thudi's search with a thousand candidates (scored as Kong's), Zhang's, and ours."""
REPORTED = {
    ("lenet-mnist", 100, "efficient-greedy"): 7.9e-3,
    ("lenet-mnist", 1000, "efficient-greedy"): 1e-3,
    ("vggmini-cifar10", 100, "efficient-greedy"): 2.398,
}
FRACTIONS = (0.0, 0.1, 0.25, 0.5, 1.0)
"""0 stands for a single example."""


SIZES = {"lenet-mnist": (50, 100, 500, 1000, 2000), "fcn-adult": (100, 1000), "vggmini-cifar10": (50, 100)}
IMAGES_ON_GPU = ("vggmini-cifar10",)


def run(setting: Setting) -> dict[str, Any]:
    rows: list[dict[str, Any]] = []
    stage = 20 if setting.quick else 500
    for name in IMAGES_ON_GPU if setting.cuda else ("lenet-mnist", "fcn-adult")[: 1 if setting.quick else 2]:
        for size in (50, 100) if setting.quick else SIZES[name]:
            task = setting.task(name, batch_size=size)
            step = max(1, stage * 100 // size)
            _, trained = next(at_stages(task, setting.numerics(), [step]))
            runs = 1 if setting.quick or size >= 1000 else 3
            pool = 300 if setting.quick else max(1000, 2 * size)
            for fraction in (0.0, 1.0) if setting.quick else FRACTIONS:
                count = max(1, round(fraction * size))
                for attack_name, settings in ATTACKS.items():
                    setting.advance(f"{name}, b = {size}, {count} examples, {attack_name}")
                    errors, update = [], 0.0
                    for seed in range(runs):
                        problem = problem_at(trained, step + seed, count, pool_size=pool, seed=seed)
                        forgery = attack(problem, attack_name, **settings)
                        errors.append(forgery.error)
                        update = forgery.update
                    rows.append(
                        {"task": task.spec.name if task.spec else name, "batch": size, "replaced": count}
                        | {"attack": attack_name, "mean": statistics.mean(errors)}
                        | {"min": min(errors), "max": max(errors), "update": update}
                        | {"paper": REPORTED.get((name, size, attack_name)) if fraction == 1 else None}
                    )
    notes = [
        f"a batch after {stage * 100:,} examples of training, 3 runs (1 from b = 1000), replacements from "
        f"max(1000, 2b) rows, {SECONDS:.0f} s for each attack",
        "the papers' scripts: one scaled errors by sqrt(0.01) instead of 0.01 (10 times larger), one put softmax "
        "before cross-entropy (about 10 times smaller); ours are l2 errors of the step function",
        "paper: LeNet b = 100 7.9e-3 (Kong), b = 1000 1e-3 (Thudi), VGGmini b = 100 2.398 (Kong), stage not stated",
    ]
    return {"rows": rows, "notes": notes}

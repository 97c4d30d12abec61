"""Fig. 3 and 14: error against the forging fraction and the batch size, for published attacks and ours."""

from __future__ import annotations

import statistics
from typing import Any

from trainwitness.experiments.attacked import at_stages, problem_at
from trainwitness.experiments.experiment import Setting
from trainwitness.forging.forge import attack

ATTACKS: dict[str, dict[str, Any]] = {
    "efficient-greedy": {"candidates": 1000},
    "neighbour": {},
    "swap-search": {},
}
"""Thudi's search with a thousand candidates (scored as Kong's), Zhang's, and ours."""
FRACTIONS = (0.0, 0.1, 0.25, 0.5, 1.0)
"""0 stands for a single example."""


def run(setting: Setting) -> dict[str, Any]:
    rows: list[dict[str, Any]] = []
    runs, stage, pool = (1, 20, 300) if setting.quick else (3, 500, 2000) if not setting.cuda else (2, 300, 300)
    for name in ("vggmini-cifar10",) if setting.cuda else ("lenet-mnist",):
        for size in (50, 100) if setting.quick else (100,) if setting.cuda else (100, 500, 1000):
            task = setting.task(name, batch_size=size)
            _, trained = next(at_stages(task, setting.numerics(), [stage * 100 // size]))
            for fraction in (0.0, 1.0) if setting.quick else FRACTIONS:
                count = max(1, round(fraction * size))
                for attack_name, settings in ATTACKS.items():
                    setting.advance(f"{name}, b = {size}, {count} examples, {attack_name}")
                    errors, update = [], 0.0
                    for seed in range(runs):
                        problem = problem_at(trained, stage * 100 // size + seed, count, pool_size=pool, seed=seed)
                        forgery = attack(problem, attack_name, **settings)
                        errors.append(forgery.error)
                        update = forgery.update
                    rows.append(
                        {"task": task.spec.name if task.spec else name, "batch": size, "replaced": count}
                        | {"attack": attack_name, "mean": statistics.mean(errors)}
                        | {"min": min(errors), "max": max(errors), "update": update}
                    )
    notes = [
        f"a batch in the middle of training, {runs} runs, replacements from {pool} rows",
        "the papers' scripts: one scaled errors by sqrt(0.01) instead of 0.01 (10 times larger), one put softmax "
        "before cross-entropy (about 10 times smaller); ours are l2 errors of the step function",
        "reported: LeNet b = 100 7.9e-3 (Kong), b = 1000 1e-3 (Thudi), VGGmini b = 100 2.398 (Kong)",
    ]
    return {"rows": rows, "notes": notes}

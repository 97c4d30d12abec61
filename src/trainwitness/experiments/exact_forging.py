"""Fig. 12 and 13, workshop Fig. 3: batches of real numbers with the same gradient."""

from __future__ import annotations

from typing import Any

from trainwitness.experiments.attacked import at_stages, problem_at
from trainwitness.experiments.experiment import Setting, beside
from trainwitness.forging.forge import attack

CASES: tuple[tuple[str, str, dict[str, int], str, float | None], ...] = (
    ("null-space", "mlp-mnist", {"batch_size": 32, "hidden": 8}, "Fig. 12", 1e-7),
    ("null-space", "mlp-mnist", {"batch_size": 300, "hidden": 32}, "", None),
    ("null-space", "softmax-mnist", {"batch_size": 100}, "workshop Fig. 3", 2.5e-8),
    ("null-space", "softmax-cifar10", {"batch_size": 2000}, "", None),
    ("error-matrix", "softmax-mnist", {"batch_size": 100}, "Fig. 13", 1e-7),
    ("error-matrix", "softmax-cifar10", {"batch_size": 100}, "Fig. 13", 1e-7),
)


def run(setting: Setting) -> dict[str, Any]:
    rows: list[dict[str, Any]] = []
    stage = 5 if setting.quick else 100
    for name, task_name, options, figure, paper in CASES[:1] + CASES[4:5] if setting.quick else CASES:
        setting.advance(f"{name}, {task_name}, b = {options['batch_size']}")
        task = setting.task(task_name, **options)
        _, trained = next(at_stages(task, setting.numerics(), [stage]))
        size = options["batch_size"]
        forgery = attack(problem_at(trained, stage, size, pool_size=2 * size, seed=0), name)
        rows.append(
            {"attack": name, "task": task.spec.name if task.spec else task_name, "batch": size}
            | {"hidden": options.get("hidden"), "figure": figure or None, "float64": forgery.residual}
            | {"update": forgery.update, "seconds": forgery.cost.seconds}
            | beside(forgery.error, paper)
        )
    notes = [
        "every example replaced; the inputs (and for error-matrix the labels) are real numbers outside the domain",
        "`ours` is the error of the step in float32, `float64` that of the same two batches in float64",
    ]
    return {"rows": rows, "notes": notes}

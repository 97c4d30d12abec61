"""Workshop Fig. 4: logistic regression whose batches are computed in another order."""

from __future__ import annotations

from typing import Any

from trainwitness.experiments.experiment import Setting, beside
from trainwitness.experiments.noise_table import measure

PAPER = 1e-8


def run(setting: Setting) -> dict[str, Any]:
    rows, measured = [], {}
    for name in ("softmax-mnist",) if setting.quick else ("softmax-mnist", "softmax-cifar10"):
        for size in (100, 1000):
            setting.advance(f"{name}, b = {size}")
            task = setting.task(name, batch_size=size)
            found = measure(task, setting.numerics(), 10 if setting.quick else 100, only="order")
            rows.append(
                {"task": task.spec.name if task.spec else name, "batch": size, "steps": found["steps"]}
                | {"update": found["update"]}
                | beside(found["largest"]["order"], PAPER)
            )
            measured[f"{name}/{size}"] = found
    return {"rows": rows, "notes": ["largest of 10 random orders of each step's batch"], "measured": measured}

"""Baluta et al.: for which pools are the last bits of the gradients independent over GF(2)?"""

from __future__ import annotations

import resource
from dataclasses import asdict
from typing import Any

from trainwitness.core.seeds import derive, permutation
from trainwitness.experiments.attacked import at_stages
from trainwitness.experiments.experiment import Setting
from trainwitness.forging.certificate import NOT_COVERED, certify
from trainwitness.tasks.dataset import Dataset
from trainwitness.training.per_example import PerExample

POOLS = {
    "lenet-mnist": (1000, 10_000),
    "mlp-mnist": (10_000,),
    "softmax-mnist": (2000, 5000),
    "fcn-adult": (500, 1500),
}
QUICK_POOLS = {"lenet-mnist": (200, 1000), "softmax-mnist": (300,)}
STAGES = (0, 500)


def run(setting: Setting) -> dict[str, Any]:
    rows: list[dict[str, Any]] = []
    for name, pools in (QUICK_POOLS if setting.quick else POOLS).items():
        task = setting.task(name)
        for stage, trained in at_stages(task, setting.numerics(), (20,) if setting.quick else STAGES):
            gradients = PerExample(trained, trained.state())
            for pool in pools:
                setting.advance(f"{name}, step {stage}, {pool} examples")
                found = certify(gradients, distinct_rows(task.dataset, pool))
                rows.append(
                    {"task": task.spec.name if task.spec else name, "step": stage}
                    | asdict(found)
                    | {"certified": "yes" if found.holds else "no", "peak MB": _peak_megabytes()}
                )
    notes = [
        "full rank proves that no other multiset of examples from the pool has the same sum of fixed-point gradients",
        "seconds include the gradients; peak MB is of the whole process so far",
        *(f"not covered: {gap}" for gap in NOT_COVERED),
        "there cannot be a certificate for more examples than parameters, so never for all of Adult and fcn-adult",
    ]
    return {"rows": rows, "notes": notes}


def distinct_rows(dataset: Dataset, count: int) -> list[int]:
    """Random rows, of those with the same content one."""
    order = permutation(derive(0, "certificate"), len(dataset)).tolist()
    chosen: set[int] = set()
    for row in order:
        if len(chosen) < count and not chosen.intersection(dataset.twins.get(row, ())):
            chosen.add(row)
    return sorted(chosen)


def _peak_megabytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1000

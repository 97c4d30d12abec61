"""Table 2: the largest benign error in float16 and bfloat16 mixed precision."""

from __future__ import annotations

from typing import Any

from trainwitness.core.numerics import Precision
from trainwitness.experiments.experiment import Setting, beside
from trainwitness.experiments.noise_table import largest, measure

PAPER: dict[tuple[str, Precision], float] = {
    ("lenet-mnist", "float16"): 8.96e-6,
    ("vggmini-cifar10", "float16"): 7.35e-5,
    ("fcn-adult", "float16"): 4.2e-6,
    ("transformer-imdb", "float16"): 4.74e-5,
    ("lenet-mnist", "bfloat16"): 6.6e-5,
    ("vggmini-cifar10", "bfloat16"): 5.97e-4,
    ("fcn-adult", "bfloat16"): 1.22e-4,
}
STEPS = {"fcn-adult": 100, "lenet-mnist": 50, "transformer-imdb": 10, "vggmini-cifar10": 2}
PRECISIONS: tuple[Precision, ...] = ("float16", "bfloat16")


def run(setting: Setting) -> dict[str, Any]:
    rows, measured = [], {}
    names = ("fcn-adult", "lenet-mnist") if setting.quick else tuple(STEPS)
    for name in names:
        for precision in PRECISIONS if setting.cuda or not setting.quick else ("bfloat16",):
            if not setting.cuda and (name, precision) == ("vggmini-cifar10", "float16"):
                continue  # minutes per step
            setting.advance(f"{name}, {precision}")
            task = setting.task(name, batch_size=100)
            steps = 5 if setting.quick else 50 if setting.cuda else STEPS[name]
            found = measure(task, setting.numerics(precision, autotune=setting.cuda), steps)
            same = largest(found, "repetition", "order", "threads", "onednn", "memory-format", "autotune") or 0.0
            elsewhere = largest(found, "device", "rounding") or 0.0
            rows.append(
                {"task": task.spec.name if task.spec else name, "precision": precision, "steps": steps}
                | {"repeated": largest(found, "repetition"), "same machine": same, "elsewhere": elsewhere}
                | {"update": found["update"]}
                | beside(max(same, elsewhere), PAPER.get((name, precision)))
            )
            measured[f"{name}/{precision}"] = found
    notes = [
        "same machine: repeated, other orders, threads and kernels; elsewhere: against the CPU (on a GPU) and "
        "against float64 inside the step, which is how far another machine's rounding may be",
        "ours is the larger of the two; float16 convolutions take minutes on CPU, so vggmini has them on GPU only",
    ]
    return {"rows": rows, "notes": notes, "measured": measured}

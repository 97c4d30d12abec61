"""Does exact arithmetic train as well as float32? The same steps in both, and the accuracy of each."""

from __future__ import annotations

from typing import Any

from trainwitness.core.numerics import Precision
from trainwitness.experiments.experiment import Setting
from trainwitness.tasks.task import Task
from trainwitness.training.evaluate import accuracy
from trainwitness.training.stepper import Stepper

Case = tuple[str, dict[str, int | float | str], int]

CPU: tuple[Case, ...] = (
    ("lenet-mnist", {"batch_size": 100}, 4000),
    ("fcn-adult", {"batch_size": 1000}, 4000),
    ("lenet-digits", {"batch_size": 100, "learning_rate": 0.1}, 500),
    ("mlp-digits", {"batch_size": 100, "optimizer": "adam", "learning_rate": 0.001}, 500),
    ("softmax-digits", {"batch_size": 100}, 500),
)
GPU: tuple[Case, ...] = (
    ("vggmini-cifar10", {"batch_size": 100, "momentum": 0.9}, 500),
    ("transformer-imdb", {"batch_size": 100, "optimizer": "adam", "learning_rate": 0.001}, 100),
)
QUICK: tuple[Case, ...] = (
    ("lenet-digits", {"batch_size": 50, "learning_rate": 0.1}, 60),
    ("softmax-digits", {"batch_size": 100}, 100),
)
ALLOWED = 0.005


def run(setting: Setting) -> dict[str, Any]:
    rows = []
    for name, options, steps in QUICK if setting.quick else GPU if setting.cuda else CPU:
        task = setting.task(name, **options)
        found = {}
        for precision in ("float32", "exact"):
            setting.advance(f"{name}, {steps} steps in {precision}")
            found[precision] = _trained(setting, task, precision, steps)
        difference = found["exact"] - found["float32"]
        rows.append(
            {"task": task.spec.name if task.spec else name, "options": _words(options), "steps": steps}
            | {"float32": found["float32"], "exact": found["exact"], "difference": difference}
            | {"within 0.5 points": abs(difference) <= ALLOWED}
        )
    notes = ["accuracy on the test rows; plain SGD at learning rate 0.01 unless the options say otherwise"]
    return {"rows": rows, "notes": notes}


def _words(options: dict[str, int | float | str]) -> str:
    return ", ".join(f"{key} {value}" for key, value in options.items())


def _trained(setting: Setting, task: Task, precision: Precision, steps: int) -> float:
    stepper = Stepper(task, setting.numerics(precision))
    for step in range(steps):
        stepper.run(task.schedule.batch(step))
    return accuracy(stepper) or 0.0

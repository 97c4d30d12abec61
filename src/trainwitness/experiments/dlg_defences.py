"""DLG deck: noise, precision and pruning against DLG, and what they cost in accuracy."""

from __future__ import annotations

from typing import Any

from trainwitness.core.seeds import derive, permutation
from trainwitness.experiments.experiment import Setting
from trainwitness.experiments.leaked import leak_task
from trainwitness.leakage.defences import Defence, clipped, defended, parse
from trainwitness.leakage.inputs import dlg
from trainwitness.leakage.inputs.quality import RECOGNISABLE, judged
from trainwitness.leakage.inputs.target import Target
from trainwitness.leakage.utility import accuracy_with
from trainwitness.training.stepper import Stepper

PAPER = {
    "none": (None, 0.763), "gaussian:1e-4": (False, 0.756), "gaussian:1e-3": (False, 0.733),
    "gaussian:1e-2": (True, 0.453), "gaussian:1e-1": (True, 0.01), "laplacian:1e-4": (False, 0.756),
    "laplacian:1e-3": (False, 0.734), "laplacian:1e-2": (True, 0.462), "laplacian:1e-1": (True, 0.01),
    "float16": (False, 0.761), "int8": (True, 0.537), "prune:0.01": (False, None), "prune:0.1": (False, None),
    "prune:0.2": (True, None), "prune:0.5": (True, None), "clip:1:0.1": (None, None), "clip:1:1": (None, None),
}  # fmt: skip
"""Defence -> whether it protects, and the accuracy with it (CIFAR-100 in the deck)."""


def run(setting: Setting) -> dict[str, Any]:
    task = leak_task(setting, "sigmoid-cifar100")
    stepper = Stepper(task, setting.numerics())
    trained = leak_task(setting, "mlp-mnist", {"hidden": [300, 300], "learning_rate": 0.1})
    steps = 20 if setting.quick else 300
    images, iterations = (1, 20) if setting.quick else (2, 800)
    rows: list[dict[str, Any]] = []
    for text in ("none", "gaussian:1e-2") if setting.quick else PAPER:
        defence = None if text == "none" else parse(text)
        values = []
        for number in range(images):
            setting.advance(f"{text}, image {number}")
            row = int(permutation(derive(0, "dlg defences"), len(task.dataset))[number])
            target = shared(stepper, [row], defence, number)
            found = dlg.reconstruct(target, target.labels_of([row]), restarts=1, steps=iterations, seed=number)
            values += [one.psnr for one in judged(found.inputs, target.inputs_of([row]))]
        protects, published = PAPER[text]
        rows.append(
            {"defence": text, "mean dB": sum(values) / len(values), "best dB": max(values)}
            | {"protects": "no" if max(values) >= RECOGNISABLE else "yes"}
            | {"paper": None if protects is None else "yes" if protects else "no"}
            | {"accuracy": accuracy_with(trained, defence, steps, setting.numerics()), "paper, accuracy": published}
            | {"epsilon": defence.epsilon(steps) if defence else None}
        )
    notes = [
        f"{task.spec.name if task.spec else ''}, batch 1, true labels, {iterations} iterations, {images} images; "
        f"protects: no image reaches {RECOGNISABLE:g} dB",
        f"accuracy: FCN-3 on {trained.dataset.name} after {steps} steps with defended gradients of batches of 100; "
        "the paper's is of another model on CIFAR-100",
        "noise has the stated variance on every value of the gradient; what it hides depends on the gradient's size",
    ]
    return {"rows": rows, "notes": notes}


def shared(stepper: Stepper, rows: list[int], defence: Defence | None, seed: int) -> Target:
    """The target as it is shared under a defence."""
    state = stepper.state()
    target = Target.of_rows(stepper, state, rows)
    if defence is None:
        return target
    if defence.per_example:
        return Target(stepper, state, clipped(stepper, state, rows, defence, seed), len(rows))
    return Target(stepper, state, defended(target.gradient, defence, seed), len(rows))

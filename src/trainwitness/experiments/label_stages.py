"""Paper 004, Fig. 2: label restoration from untrained to well trained."""

from __future__ import annotations

from typing import Any

from trainwitness.experiments.experiment import Setting
from trainwitness.experiments.leaked import COUNTING, Options, accuracies, scenes
from trainwitness.leakage.labels.metrics import counts_of
from trainwitness.leakage.labels.whole_counts import whole_counts
from trainwitness.training.evaluate import accuracy

CASES: list[tuple[str, str, Options, tuple[int, ...]]] = [
    ("FCN-3/MNIST", "mlp-mnist", {"hidden": [300, 300]}, (0, 200, 1000, 3000)),
    ("FCN-3/MNIST, rate 0.1", "mlp-mnist", {"hidden": [300, 300], "learning_rate": 0.1}, (1000, 3000)),
    ("LeNet-5/MNIST", "lenet-mnist", {"learning_rate": 0.1}, (0, 200, 1000, 3000)),
    ("LeNet-5/CIFAR-100", "lenet-cifar100", {"learning_rate": 0.1}, (0, 200, 1000)),
]


def run(setting: Setting) -> dict[str, Any]:
    rows: list[dict[str, Any]] = []
    repeats = 2 if setting.quick else 50
    for shown, name, options, stages in CASES[:1] if setting.quick else CASES:
        for stage, scene in scenes(setting, name, options, (0, 100) if setting.quick else stages):
            for size in (24,) if setting.quick else (24, 64):
                setting.advance(f"{shown}, step {stage}, batch {size}")
                found = accuracies(scene, size, repeats, COUNTING)
                frequencies = counts_of(scene.pool.labels, scene.layer.classes) / len(scene.pool)
                guess = whole_counts(size * frequencies, size)
                guessed = [(guess == scene.share(scene.draw(size, k))[1]).mean() for k in range(min(repeats, 10))]
                rows.append(
                    {"model": shown, "step": stage, "accuracy": accuracy(scene.stepper), "batch": size}
                    | {name: found[name]["LnAcc"] for name in COUNTING}
                    | {"guessing": float(sum(guessed) / len(guessed)), "LeAcc, ilrg": found["ilrg"]["LeAcc"]}
                    | {"LeAcc, likelihood": found["likelihood"]["LeAcc"], "repeats": repeats}
                )
    notes = [
        "LnAcc by method; guessing: whole counts nearest to K times the class frequencies",
        "auxiliary and likelihood know 400 test images with labels; batches are of training rows",
        "the paper's Fig. 2 is a plot; its repository gives iLRG .567 for VGG-16 at 64 after 100 epochs",
    ]
    return {"rows": rows, "notes": notes}

"""Paper 004, Fig. 5, and more: what defences do to label restoration."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from trainwitness.experiments.experiment import Setting
from trainwitness.experiments.leaked import COUNTING, Scene, scenes
from trainwitness.leakage.defences import Defence, clipped, defended, parse
from trainwitness.leakage.labels.final_layer import FinalLayer
from trainwitness.leakage.labels.metrics import ln_acc
from trainwitness.leakage.labels.restorer import restore
from trainwitness.leakage.utility import accuracy_with
from trainwitness.training.final_layer import last_linear, parameter_name

BATCH = 24
DEFENCES = (
    "gaussian:1e-6", "gaussian:1e-5", "gaussian:1e-4", "gaussian:1e-3", "gaussian:1e-2", "laplacian:1e-4",
    "laplacian:1e-2", "float16", "int8", "prune:0.1", "prune:0.5", "prune:0.9", "prune:0.99",
    "clip:1:0.1", "clip:1:1",
)  # fmt: skip


def run(setting: Setting) -> dict[str, Any]:
    rows: list[dict[str, Any]] = []
    repeats = 2 if setting.quick else 20
    chosen = [None, *map(parse, ("gaussian:1e-3", "int8") if setting.quick else DEFENCES)]
    steps = 20 if setting.quick else 300
    for _, scene in scenes(setting, "mlp-mnist", {"hidden": [300, 300], "learning_rate": 0.1}):
        for defence in chosen:
            name = defence.label if defence else "none"
            setting.advance(name)
            found: dict[str, list[float]] = {method: [] for method in COUNTING}
            for number in range(repeats):
                draw = scene.draw(BATCH, number)
                gradient, truth = _shared(scene, draw, defence, number)
                for method, values in found.items():
                    restored = restore(method, gradient, scene.layer, BATCH, scene.auxiliary)
                    values.append(ln_acc(restored, truth) or 0.0)
            useful = accuracy_with(scene.stepper.task, defence, steps, setting.numerics())
            rows.append(
                {"defence": name}
                | {method: float(np.mean(values)) for method, values in found.items()}
                | {"accuracy": useful, "epsilon": defence.epsilon(steps) if defence else None, "repeats": repeats}
            )
    notes = [
        f"FCN-3/MNIST untrained, batch {BATCH}; LnAcc by method; variances of the noise on every value of the mean",
        f"accuracy: test rows after {steps} steps of SGD (rate 0.1, batches of 100) with defended gradients",
        f"epsilon of clip: for all {steps} steps, delta 1e-5, Gaussian mechanism without credit for random batches",
        "the paper's Fig. 5 is a plot: noise and sparsification weaken iLRG",
    ]
    return {"rows": rows, "notes": notes}


def _shared(scene: Scene, rows: list[int], defence: Defence | None, number: int) -> tuple[FinalLayer, Any]:
    """The last layer's gradient as it is shared. `clip` clips whole gradients, of rows of the training set."""
    if defence is not None and defence.per_example:
        rows = [row % len(scene.stepper.task.dataset) for row in rows]
    seen, truth = scene.share(rows)
    name, _ = last_linear(scene.stepper.live.model)
    keys = [parameter_name(name, key) for key in ("weight", "bias")]
    assert seen.bias is not None
    gradient: dict[str, torch.Tensor] = dict(zip(keys, (seen.weight, seen.bias), strict=True))
    if defence is not None and defence.per_example:
        gradient = clipped(scene.stepper, scene.state, rows, defence, number)
    elif defence is not None:
        gradient = defended(gradient, defence, number)
    return FinalLayer.named(gradient, name), truth

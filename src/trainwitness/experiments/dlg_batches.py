"""DLG deck: iterations until the inputs are restored, by batch size."""

from __future__ import annotations

import math
from typing import Any

import torch

from trainwitness.core.numerics import Precision
from trainwitness.core.seeds import derive, permutation
from trainwitness.experiments.experiment import Setting
from trainwitness.experiments.inversion_labels import restored_labels
from trainwitness.experiments.leaked import leak_task
from trainwitness.leakage.inputs import dlg
from trainwitness.leakage.inputs.quality import judged
from trainwitness.leakage.inputs.target import Target
from trainwitness.tasks.builtin.sigmoid import equations
from trainwitness.training.stepper import Stepper

PAPER = {1: 270, 2: 602, 4: 1173, 8: 2711}
"""ResNet-20 on CIFAR-100; an iteration there is one call of L-BFGS, up to 20 inner ones."""
CLEAR, EVERY = 25.0, 25
LIMITS = {12: 1500, 32: 4000}
"""Channels -> iterations: DLG's network, and one whose gradient has more equations than 8 images have unknowns."""


def run(setting: Setting) -> dict[str, Any]:
    rows: list[dict[str, Any]] = []
    precision: Precision = "float64" if setting.cuda else "float32"
    for width, limit in {12: 40}.items() if setting.quick else LIMITS.items():
        stepper = Stepper(leak_task(setting, "sigmoid-cifar100", {"width": width}), setting.numerics(precision))
        for size in (1,) if setting.quick else PAPER:
            tried = 1 if setting.quick or size > 1 else 8
            rows.append({"channels": width, "batch": size} | _row(setting, stepper, width, size, tried, limit))
    notes = [
        f"untrained; labels restored first; one restart, {precision}; ended when the squared distance of gradients "
        f"is {dlg.SOLVED:g} of the squared gradient (solved), or at the limit",
        "until 25 dB: iterations until the worst image of the batch is there, looked at every 25; mean over batches",
        "unknowns: input values of the batch; equations: at most so many numbers in the gradient depend on them "
        "(the argument is at `equations` in tasks/builtin/sigmoid.py). Fewer than unknowns: other images have the "
        "same gradient, whatever the search",
        "the paper's iterations are of ResNet-20 and hold up to 20 inner iterations each; ours are inner ones",
    ]
    return {"rows": rows, "notes": notes}


def _row(setting: Setting, stepper: Stepper, width: int, size: int, tried: int, limit: int) -> dict[str, Any]:
    iterations, values, clear, solved = [], [], [], 0
    for number in range(tried):
        setting.advance(f"{width} channels, batch size {size}, batch {number}")
        chosen = [int(k) for k in permutation(derive(0, "dlg", size, number), len(stepper.task.dataset))[:size]]
        target = Target.of_rows(stepper, stepper.state(), chosen)
        watched = _Watched(target.inputs_of(chosen))
        found = dlg.reconstruct(
            target, restored_labels(target), restarts=1, steps=limit, seed=number, watch=watched.look
        )
        iterations.append(found.iterations)
        solved += found.objective <= dlg.SOLVED
        values += [one.psnr for one in judged(found.inputs, watched.truth)]
        clear.append(watched.clear)
    reached = [when for when in clear if when is not None]
    channels, side = stepper.task.dataset.inputs.shape[1:3]
    return {
        "batches": tried, "images": len(values), "above 25 dB": sum(v >= CLEAR for v in values),
        "least dB": min(values), "mean dB": sum(values) / len(values), "solved": solved,
        "iterations": sum(iterations) / len(iterations),
        "until 25 dB": sum(reached) / len(reached) if len(reached) == tried else None,
        "limit": limit, "unknowns": math.prod(stepper.task.dataset.inputs.shape[1:]) * size,
        "equations": equations(width, size, channels=channels, side=side), "paper": PAPER[size],
    }  # fmt: skip


class _Watched:
    """When all images of a batch were clear for the first time: for the table, the search knows nothing of it."""

    def __init__(self, truth: torch.Tensor) -> None:
        self.truth, self._seen = truth, 0
        self.clear: int | None = None

    def look(self, inputs: torch.Tensor) -> None:
        self._seen += 1
        if self.clear is None and self._seen % EVERY == 0:
            worst = min(one.psnr for one in judged(inputs[0], self.truth))
            self.clear = self._seen if worst >= CLEAR else None

"""Paper 004, Fig. 4: gradient inversion (IG) with labels restored first, against IG that seeks them."""

from __future__ import annotations

import statistics
from typing import Any

import numpy as np
import torch

from trainwitness.core.seeds import derive, permutation
from trainwitness.experiments.experiment import Setting
from trainwitness.experiments.leaked import Options, leak_task
from trainwitness.leakage.inputs import ig
from trainwitness.leakage.inputs.quality import judged
from trainwitness.leakage.inputs.target import Target
from trainwitness.leakage.labels.final_layer import FinalLayer
from trainwitness.leakage.labels.restorer import restore
from trainwitness.training.final_layer import last_linear
from trainwitness.training.stepper import Stepper

PAPER_GAIN = (6.0, 7.0)
"""dB, over the six best images."""
BEST = 6


def _cases(setting: Setting) -> list[tuple[str, Options, int, int, int]]:
    """(task, options, batch, batches, iterations)."""
    if setting.quick:
        return [("mlp-mnist", {"hidden": [64]}, 3, 1, 30)]
    fully: Options = {"hidden": [300, 300]}
    if setting.cuda:
        return [
            ("mlp-mnist", fully, 16, 6, 1000),
            ("sigmoid-cifar100", {"width": 32}, 4, 1, 2000),
            ("resnet-cifar100", {"activation": "swish"}, 16, 1, 1000),
        ]
    return [("mlp-mnist", fully, 16, 6, 1000), ("lenet-mnist", {}, 8, 2, 1000), ("sigmoid-cifar100", {}, 4, 1, 1000)]


def run(setting: Setting) -> dict[str, Any]:
    rows: list[dict[str, Any]] = []
    for name, options, size, batches, iterations in _cases(setting):
        task = leak_task(setting, name, options)
        stepper = Stepper(task, setting.numerics())
        quality: dict[bool, list[float]] = {True: [], False: []}
        right = []
        for number in range(batches):
            chosen = [int(k) for k in permutation(derive(0, "inversion", number), len(task.dataset))[:size]]
            target = Target.of_rows(stepper, stepper.state(), chosen)
            labels = restored_labels(target)
            truth = target.labels_of(chosen)
            right.append(bool(torch.equal(labels.sort().values.cpu(), truth.sort().values.cpu())))
            for known in (True, False):
                setting.advance(f"{name}, batch {number}, labels {'restored' if known else 'sought'}")
                found = ig.reconstruct(target, labels if known else None, restarts=1, steps=iterations, seed=number)
                quality[known] += [one.psnr for one in judged(found.inputs, target.inputs_of(chosen))]
        rows.append(_row(name, size, batches, iterations, quality, all(right)))
    notes = [
        "PSNR in dB, images 0..1, matched by assignment; mean of all images, and of the six best as in the paper",
        "labels restored by `pooled`; IG with cosine distance, total variation 1e-3, Adam on signs, one restart",
        "the paper inverts FCN-3/MNIST and ResNet-18/CIFAR-100 at batch 16",
    ]
    return {"rows": rows, "notes": notes}


def restored_labels(target: Target) -> torch.Tensor:
    """One label per example of the batch, from the last layer's gradient."""
    name, _ = last_linear(target.stepper.live.model)
    layer = FinalLayer.named(target.state.part("param"), name)
    counts = restore("pooled", FinalLayer.named(target.gradient, name), layer, target.count).counts
    assert counts is not None
    return torch.from_numpy(np.repeat(np.arange(len(counts)), counts)).to(target.stepper.device)


def _row(
    name: str, size: int, batches: int, iterations: int, quality: dict[bool, list[float]], right: bool
) -> dict[str, Any]:
    means = {known: statistics.mean(values) for known, values in quality.items()}
    best = {known: statistics.mean(sorted(values)[-BEST:]) for known, values in quality.items()}
    gains = [
        statistics.mean(quality[True][k : k + size]) - statistics.mean(quality[False][k : k + size])
        for k in range(0, size * batches, size)
    ]
    return {
        "task": name, "batch": size, "batches": batches, "iterations": iterations,
        "labels right": "yes" if right else "no",
        "restored": means[True], "sought": means[False], "gain": means[True] - means[False],
        "gain, least batch": min(gains), "gain, six best": best[True] - best[False],
        "paper, six best": f"{PAPER_GAIN[0]:g} to {PAPER_GAIN[1]:g}",
    }  # fmt: skip

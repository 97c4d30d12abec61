"""Paper 004, Table 5: one example each of two classes beside up to 646 of a third."""

from __future__ import annotations

from typing import Any

import numpy as np

from trainwitness.core.seeds import derive, permutation
from trainwitness.experiments.experiment import Setting
from trainwitness.experiments.leaked import COUNTING, Options, Scene, scenes
from trainwitness.leakage.labels.final_layer import FinalLayer
from trainwitness.leakage.labels.restorer import restore

SIZES = (24, 64, 128, 256, 628, 648)
"""626 : 1 is the largest imbalance that the paper states."""
PAPER = {"untrained": "exact up to 626:1", "trained": "fails beyond some imbalance"}


def run(setting: Setting) -> dict[str, Any]:
    rows: list[dict[str, Any]] = []
    repeats = 2 if setting.quick else 20
    cases: list[tuple[str, Options, tuple[int, ...]]] = [
        ("lenet-cifar100", {"learning_rate": 0.1}, (0, 30) if setting.quick else (0, 1000))
    ]
    if setting.cuda and not setting.quick:
        cases.append(("vgg-cifar100", {"learning_rate": 0.05}, (0, 1000)))
    for name, options, stages in cases:
        for stage, scene in scenes(setting, name, options, stages):
            classes = (0, 18, 92) if scene.layer.classes == 100 else (0, 5, 9)
            for size in SIZES[:2] if setting.quick else SIZES:
                setting.advance(f"{name}, step {stage}, batch {size}")
                rows += _rows(scene, name, stage, size, classes, repeats)
    notes = [
        "mean recovered counts of the two single classes and of the large one (true: 1, K - 2, 1), and LnAcc",
        f"paper, VGG-16: untrained {PAPER['untrained']}, trained {PAPER['trained']}; VGG-16 here on a GPU only",
        "images of the large class are drawn with repetition (the subset has 5 to 22 per class)",
    ]
    return {"rows": rows, "notes": notes}


def _rows(
    scene: Scene, name: str, stage: int, size: int, classes: tuple[int, int, int], repeats: int
) -> list[dict[str, Any]]:
    first, large, last = classes
    of_class = {c: np.flatnonzero(scene.pool.labels == c) for c in classes}
    found: dict[str, list[Any]] = {method: [] for method in COUNTING}
    for number in range(repeats):
        order = {c: rows[permutation(derive(0, "imbalance", number, c), len(rows))] for c, rows in of_class.items()}
        rows = [int(order[first][0]), int(order[last][0]), *map(int, np.resize(order[large], size - 2))]
        seen, truth = scene.share(rows)
        for method, counts in found.items():
            restored = restore(method, FinalLayer.of(seen.weight, seen.bias), scene.layer, size, scene.auxiliary)
            assert restored.counts is not None
            picked = restored.counts[list(classes)]
            counts.append([*picked, (restored.counts == truth).mean()])
    out = []
    for method, counts in found.items():
        a, b, c, accuracy = np.mean(counts, 0).tolist()
        out.append(
            {"task": name, "step": stage, "batch": size, "imbalance": f"{size - 2}:1", "method": method}
            | {f"class {first}": a, f"class {large}": b, f"class {last}": c, "LnAcc": accuracy, "repeats": repeats}
        )
    return out

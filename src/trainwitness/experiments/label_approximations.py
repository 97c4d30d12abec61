"""Paper 004, Tables 3 and 4: errors of iLRG's approximations over training, its embeddings beside Soteria's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from trainwitness.experiments.experiment import Setting
from trainwitness.experiments.leaked import Options, Scene, class_means, scenes
from trainwitness.leakage.labels import ilrg, pooled
from trainwitness.leakage.labels.final_layer import FinalLayer

BATCH = 24
CASES: list[tuple[str, str, Options, tuple[int, ...]]] = [
    ("FCN-3/MNIST", "mlp-mnist", {"hidden": [300, 300], "learning_rate": 0.1}, (0, 200, 3000)),
    ("LeNet-5/MNIST", "lenet-mnist", {"learning_rate": 0.1}, (0, 200, 3000)),
]
Pair = tuple[str, torch.Tensor, torch.Tensor]


def run(setting: Setting) -> dict[str, Any]:
    rows: list[dict[str, Any]] = []
    repeats = 2 if setting.quick else 50
    for shown, name, options, stages in CASES[:1] if setting.quick else CASES:
        for stage, scene in scenes(setting, name, options, (0, 50) if setting.quick else stages):
            setting.advance(f"{shown}, step {stage}")
            found: dict[str, list[tuple[float, float, float]]] = {}
            for number in range(repeats):
                for what, approximate, true in _pairs(scene, number):
                    found.setdefault(what, []).append(_errors(approximate, true))
            for what, values in found.items():
                mse, mre, similarity = np.mean(values, 0).tolist()
                rows.append(
                    {"model": shown, "step": stage, "what": what, "MSE": mse, "MRE": mre, "CosSim": similarity}
                )
    notes = [
        "per class in a batch of 24, mean over classes and batches; MRE: l2 error over l2 of the truth",
        "approximation 1: mean of slope x embedding against the product of the means; 2: the class's share of "
        "db_i against db_i; 3: probabilities of the mean embedding against the mean probabilities",
        "Soteria gives a row of dW as the embedding, up to a scale: it is taken negative (the sign of a class that "
        "occurs); iLRG divides by db_i, which has the right sign and scale; pooled gives every class one embedding",
        "the figures of Tables 3 and 4 are not in our text; it states: untrained is best, the second grows worst",
    ]
    return {"rows": rows, "notes": notes}


def _pairs(scene: Scene, number: int) -> Iterator[Pair]:
    rows = scene.draw(BATCH, number)
    seen, _ = scene.share(rows)
    labels = scene.pool.labels[rows].tolist()
    gradient = FinalLayer.of(seen.weight, seen.bias)
    restored = torch.from_numpy(ilrg.embeddings(gradient))
    whole = torch.from_numpy(pooled.embedding(gradient))
    layer = scene.layer
    for c, embeddings, probabilities, slopes in class_means(seen, labels):
        mean = embeddings.mean(0)
        slope = slopes[:, c : c + 1]
        yield "approximation 1", slope.mean(0) * mean, (slope * embeddings).mean(0)
        assert gradient.bias is not None
        share = len(embeddings) / BATCH * slope.mean(0)
        yield "approximation 2", share, torch.tensor([gradient.bias[c]])
        yield "approximation 3", torch.from_numpy(layer.probabilities(mean.numpy())), probabilities.mean(0)
        yield "embedding, iLRG", restored[c], mean
        yield "embedding, Soteria", -torch.from_numpy(gradient.weight[c]), mean
        yield "embedding, pooled", whole, mean


def _errors(found: torch.Tensor, true: torch.Tensor) -> tuple[float, float, float]:
    difference = found - true
    norm = float(true.norm())
    similarity = float(found @ true) / max(float(found.norm()) * norm, 1e-300)
    return float(difference.square().mean()), float(difference.norm()) / max(norm, 1e-300), similarity

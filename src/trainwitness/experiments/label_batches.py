"""Paper 004, Fig. 3: label restoration by batch size and by depth, untrained."""

from __future__ import annotations

from typing import Any

from trainwitness.experiments.experiment import Setting, beside
from trainwitness.experiments.leaked import COUNTING, Options, accuracies, scenes

PAPER = {
    ("FCN-3", 24): 0.994, ("FCN-3", 32): 0.804, ("FCN-3", 64): 0.598, ("FCN-3", 128): 0.386,
    ("LeNet-5", 256): 0.997, ("LeNet-5", 512): 0.960, ("LeNet-5", 1024): 0.851, ("ResNet-50", 4096): 0.982,
}  # fmt: skip
"""LnAcc of iLRG in its authors' code repository; ResNet-50 on ImageNet."""
Case = tuple[str, str, Options, tuple[int, ...], bool]
"""Shown name, task, options, batch sizes, and whether pixels are standardised."""
SIZES = (8, 24, 64, 128, 256, 512, 1024, 2048, 4096)
FULLY: Options = {"hidden": [300, 300]}


def _cases(setting: Setting) -> list[Case]:
    if setting.quick:
        return [("FCN-3", "mlp-mnist", FULLY, (24, 128), True), ("LeNet-5", "lenet-cifar100", {}, (24, 256), False)]
    cases: list[Case] = []
    for standard in (True, False):
        cases.append(("FCN-3", "mlp-mnist", FULLY, (8, 24, 32, 64, 128, 256, 512, 1024), standard))
        cases.append(("LeNet-5", "lenet-cifar100", {}, SIZES, standard))
    cases += [(f"FCN, {k} hidden", "mlp-mnist", {"hidden": [300] * k}, (64,), True) for k in (1, 3, 4, 6)]
    if setting.cuda:
        cases += [(f"VGG-{k}", "vgg-cifar100", {"depth": k}, (64, 1024), True) for k in (11, 13, 16, 19)]
        cases += [(f"ResNet-{k}", "resnet-cifar100", {"depth": k}, (64, 1024), True) for k in (18, 34, 152)]
        cases.append(("ResNet-50", "resnet-cifar100", {"depth": 50}, (64, 1024, 4096), True))
    return cases


def run(setting: Setting) -> dict[str, Any]:
    rows: list[dict[str, Any]] = []
    for shown, name, options, sizes, standard in _cases(setting):
        for _, scene in scenes(setting, name, options, standard=standard):
            for size in sizes:
                repeats = 2 if setting.quick else 50 if size <= 1024 else 10
                setting.advance(f"{shown}, batch {size}")
                found = accuracies(scene, size, repeats, COUNTING)
                rows.append(
                    {
                        "model": shown,
                        "pixels": "standardised" if standard else "0..1",
                        "batch": size,
                        "repeats": repeats,
                    }
                    | {"LeAcc, ilrg": found["ilrg"]["LeAcc"]}
                    | {name: found[name]["LnAcc"] for name in COUNTING[1:]}
                    | beside(found["ilrg"]["LnAcc"], PAPER.get((shown, size)))
                )
    notes = [
        "ours: LnAcc of iLRG, beside its authors' repository; pooled, auxiliary, likelihood: LnAcc of our methods",
        "untrained; the paper's images are standardised, which makes embeddings less alike; our tasks read 0..1",
        "CIFAR-100 batches above the pool of 1,633 images are drawn with repetition; 400 images are the attacker's",
        "VGG and ResNet by depth are measured on a GPU only",
    ]
    return {"rows": rows, "notes": notes}

"""Paper 004, Table 1: the methods of label restoration on untrained models, batch 24."""

from __future__ import annotations

from typing import Any

from trainwitness.experiments.experiment import Setting
from trainwitness.experiments.leaked import COUNTING, PRESENCE, Options, accuracies, scenes

BATCH = 24
PAPER_LEAST = 0.99
"""iLRG's LeAcc and LnAcc are "over 99%" on every untrained model; the table's other figures are not in our text."""
CASES: list[tuple[str, str, Options]] = [
    ("FCN-3/MNIST", "mlp-mnist", {"hidden": [300, 300]}),
    ("LeNet-5/CIFAR-100", "lenet-cifar100", {}),
    ("LeNet-5/CIFAR-100", "lenet-cifar100", {"activation": "swish"}),
    *[("VGG-16/CIFAR-100", "vgg-cifar100", {"activation": kind}) for kind in ("relu", "leaky-relu", "swish")],
    *[("ResNet-18/CIFAR-100", "resnet-cifar100", {"activation": kind}) for kind in ("relu", "leaky-relu", "swish")],
]


def run(setting: Setting) -> dict[str, Any]:
    rows: list[dict[str, Any]] = []
    for shown, name, options in CASES[:3] if setting.quick else CASES:
        deep = name.startswith(("vgg", "resnet"))
        repeats = 2 if setting.quick else 8 if deep and not setting.cuda else 50
        for _, scene in scenes(setting, name, options, standard=True):
            setting.advance(f"{shown}, {options.get('activation', 'relu')}")
            found = accuracies(scene, BATCH, repeats, (*PRESENCE, *COUNTING), rlg_repeats=min(repeats, 10))
            for method, values in found.items():
                rows.append(
                    {"model": shown, "activation": options.get("activation", "relu"), "method": method}
                    | values
                    | {"paper, at least": PAPER_LEAST if method == "ilrg" else None}
                )
    notes = [
        "untrained, batch 24; pixels standardised as in the paper, the task's own initialisation",
        "idlg and gradinversion scaled to batches as in section 4.2; rlg on at most 10 of the batches (a linear "
        "program per class); auxiliary and likelihood know 400 other labelled images",
        "no ImageNet here: VGG and ResNet shapes for 32x32 images with 100 classes, repeated 8 times on CPU",
    ]
    return {"rows": rows, "notes": notes}

"""Experiment: what every table and figure has in common."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from trainwitness.core.errors import UsageError
from trainwitness.core.numerics import Numerics, Precision
from trainwitness.tasks.registry import build_task, entries
from trainwitness.tasks.task import Task, TaskSpec

Row = Mapping[str, Any]

EXPERIMENTS: dict[str, tuple[str, str]] = {
    "reproduction-error": ("paper 000, Fig. 2", "benign error of the four tasks, by batch size"),
    "mixed-precision": ("paper 000, Table 2", "benign error in float16 and bfloat16"),
    "hardware": ("paper 000, Table 3; workshop Table 3", "recorded on one device, verified on another"),
    "shuffle": ("workshop Fig. 4", "logistic regression with its batches in another order"),
    "false-rejection": ("beyond the papers", "how often threshold policies reject honest traces"),
    "forging-fraction": ("paper 000, Fig. 3 and 14", "forging error by fraction and batch size"),
    "forging-stages": ("paper 000, Fig. 5-10; workshop Table 1", "forging error over training, and the margins"),
    "forging-loss": ("paper 000, Fig. 4 and 11", "what the error of forging one example follows"),
    "optimisation": ("workshop Fig. 2", "forging by gradient descent on the inputs"),
    "exact-forging": ("paper 000, Fig. 12 and 13; workshop Fig. 3", "real-valued batches with the same gradient"),
    "lattice-forging": ("paper 000, section 5.4, conjecture", "valid batches with the same gradient"),
    "fibre-forging": ("beyond the papers", "the same gradient where no layer has a null space"),
    "table4": ("paper 000, Table 4", "every batch of a small domain: is there one with the same exact gradient?"),
    "certificate": ("Baluta et al. 2023", "pools in which no other choice has the same exact gradient sum"),
    "batch-scaling": ("Thudi et al. 2022", "how the error of forging falls with the batch size"),
    "epochs": ("beyond the papers", "one content per index: how many epochs forging survives"),
    "dp": ("beyond the papers", "forging and verifying DP-SGD, with the noise's seed recorded or not"),
    "label-methods": ("paper 004, Table 1", "label restoration by seven methods, untrained models"),
    "label-batches": ("paper 004, Fig. 3", "label restoration by batch size and depth"),
    "label-stages": ("paper 004, Fig. 2", "label restoration over training"),
    "label-approximations": ("paper 004, Tables 3 and 4", "errors of iLRG's approximations and embeddings"),
    "label-imbalance": ("paper 004, Table 5", "label restoration with one dominant class"),
    "label-defences": ("paper 004, Fig. 5", "defences against label restoration, and their cost"),
    "inversion-labels": ("paper 004, Fig. 4", "gradient inversion with and without restored labels"),
    "dlg-batches": ("DLG deck", "DLG's iterations and images by batch size"),
    "dlg-defences": ("DLG deck", "defences against DLG, and their cost"),
    "leaked-text": ("DLG deck", "tokens and their order from a transformer's gradient"),
    "accuracy": ("paper 000, Table 5", "accuracy of the trained models and its spread"),
    "exact-accuracy": ("beyond the papers", "exact arithmetic trains as well as float32"),
    "exact-hardware": ("the papers' wish for eps = 0", "exact digests under every setting and across devices"),
    "exact-attacks": ("beyond the papers", "does any forged batch give an exact step's digest"),
}
"""Name to what it reproduces and what it is about; the module has the same name."""


@dataclass(frozen=True)
class Setting:
    """How an experiment is run."""

    quick: bool = False
    device: str = "cpu"
    data: Path | None = None
    advance: Callable[[str], None] = lambda _: None
    """Hears of each measurement before it is made."""

    @property
    def cuda(self) -> bool:
        return self.device.startswith("cuda")

    def task(self, name: str, **options: int | float | str) -> Task:
        """A built-in task, or in quick runs without its data the variant on bundled digits."""
        source = next(entry.source for entry in entries() if entry.name == name)
        if self.quick and not source.available(self.data):
            model = name.partition("-")[0]
            name = f"{model if model in ('lenet', 'softmax', 'mlp') else 'mlp'}-digits"
        return build_task(TaskSpec(name=name, options=dict(options)), data=self.data)

    def numerics(self, precision: Precision = "float32", **switches: bool) -> Numerics:
        """Numerics on the chosen device."""
        return Numerics(precision=precision, device=self.device, **switches)


class Experiment(Protocol):
    """A module of this folder."""

    def run(self, setting: Setting) -> dict[str, Any]:
        """Measures; the result has `rows`, to be shown as a table, and `notes`."""
        ...


def find(name: str) -> Experiment:
    """An experiment by name."""
    if name not in EXPERIMENTS:
        raise UsageError(f"unknown experiment {name!r}", hint=f"experiments: {', '.join(EXPERIMENTS)}")
    return importlib.import_module(f"trainwitness.experiments.{name.replace('-', '_')}")


def beside(ours: float, paper: float | None) -> dict[str, float | None]:
    """A measurement with the published figure and their ratio."""
    return {"ours": ours, "paper": paper, "ratio": ours / paper if paper else None}


def table(rows: Sequence[Row]) -> list[str]:
    """Rows as aligned text; the first row's keys are the header."""
    if not rows:
        return []
    header = [key for key in rows[0] if not isinstance(rows[0][key], (dict, list))]
    cells = [header, *([cell(row.get(key)) for key in header] for row in rows)]
    widths = [max(len(line[k]) for line in cells) for k in range(len(header))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in cells]


def cell(value: object) -> str:
    """A value as a table shows it."""
    if value is None:
        return "-"
    if isinstance(value, float):
        return "0" if value == 0 else f"{value:.2e}" if abs(value) < 1e-2 or abs(value) >= 1e4 else f"{value:.3g}"
    return str(value)

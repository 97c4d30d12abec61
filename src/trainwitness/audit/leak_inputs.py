"""The inputs' part of the leak audit: the attack that fits, its result in words, and what cannot be recovered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from trainwitness.core.errors import UsageError
from trainwitness.leakage.inputs import analytic, dlg, ig, sparse
from trainwitness.leakage.inputs.quality import RECOGNISABLE, Quality, judged, match
from trainwitness.leakage.inputs.restored import Restoration
from trainwitness.leakage.inputs.target import Target
from trainwitness.leakage.null_space import NullSpace, null_space
from trainwitness.leakage.text import UNKNOWN, ordered_tokens, tokens_present

ATTACKS = ("auto", "analytic", "sparse", "dlg", "ig", "none")
LARGEST = {"sparse": 12, "dlg": 8, "ig": 16}
"""Batch sizes up to which `auto` tries an attack."""
NULL_SPACE_VALUES = 1024
SPARSE_SECONDS = 10.0
MATCHING = 1e-4
"""Without the truth: a restored batch counts as found where its gradient differs by less than this share."""
Pictures = list[list[npt.NDArray[np.float64]]]


@dataclass(frozen=True, eq=False)
class InputLeak:
    """What was restored of the inputs; `pictures` are true images (if known) and restored ones."""

    attack: str
    verdict: str
    finding: bool
    quality: list[Quality] = field(default_factory=list)
    objective: float | None = None
    open_directions: NullSpace | None = None
    tokens: dict[str, Any] | None = None
    pictures: Pictures = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Plain data, without pictures."""
        return {
            "attack": self.attack,
            "verdict": self.verdict,
            "finding": self.finding,
            "objective": self.objective,
            "quality": [asdict(one) for one in self.quality],
            "null_space": None if self.open_directions is None else asdict(self.open_directions),
            "tokens": self.tokens,
        }


def inputs_of(
    target: Target,
    rows: Sequence[int] | None,
    counts: npt.NDArray[np.int64] | None,
    *,
    attack: str,
    iterations: int,
    restarts: int,
) -> InputLeak:
    """Restores the inputs with the attack named, or with the one that fits the model and the batch size."""
    if attack not in ATTACKS:
        raise UsageError(f"unknown attack {attack!r}", hint=f"attacks: {', '.join(ATTACKS)}")
    if not target.box.low.is_floating_point():
        return _text(target, rows)
    names = _choices(target) if attack == "auto" else [attack]
    restored, used, why = None, "none", "no attack was asked for" if attack == "none" else "the batch is too large"
    for name in names:
        try:
            restored, used = _reconstruct(name, target, counts, iterations, restarts), name
            break
        except UsageError as error:
            if attack != "auto":
                raise
            why = error.message
    if restored is None:
        return InputLeak("none", f"not attempted: {why}", False, open_directions=_null_space(target, rows))
    return _judged(target, rows, restored, used)


def _choices(target: Target) -> list[str]:
    if target.count == 1:
        return ["analytic", "dlg" if _smooth(target) else "ig"]
    names = ["sparse", *(["dlg"] if _smooth(target) else []), "ig"]
    return [name for name in names if target.count <= LARGEST[name]]


def _smooth(target: Target) -> bool:
    """Whether second derivatives say anything: no rectifiers and no pooling maxima."""
    rough = (nn.ReLU, nn.LeakyReLU, nn.MaxPool2d)
    return not any(isinstance(module, rough) for module in target.stepper.live.model.modules())


def _reconstruct(
    name: str, target: Target, counts: npt.NDArray[np.int64] | None, iterations: int, restarts: int
) -> Restoration | None:
    if name == "none":
        return None
    if name == "analytic":
        return analytic.reconstruct(target)
    if name == "sparse":
        return sparse.reconstruct(target, seconds=SPARSE_SECONDS)
    labels = None if counts is None else torch.from_numpy(np.repeat(np.arange(len(counts)), counts))
    search = dlg.reconstruct if name == "dlg" else ig.reconstruct
    return search(
        target, None if labels is None else labels.to(target.stepper.device), restarts=restarts, steps=iterations
    )


def _judged(target: Target, rows: Sequence[int] | None, restored: Restoration, attack: str) -> InputLeak:
    shown = restored.inputs.clamp(0, 1)
    if rows is None:
        found = restored.objective < MATCHING
        words = "restored inputs give the shared gradient" if found else "no inputs were found that give the gradient"
        verdict = f"{words} (left over: {restored.objective:.1e})"
        return InputLeak(attack, verdict, found, objective=restored.objective, pictures=_pictures(shown))
    truth = target.inputs_of(rows)
    quality = judged(restored.inputs, truth)
    values = [one.psnr for one in quality]
    clear = sum(value >= RECOGNISABLE for value in values)
    word = "recognisable" if clear else "not recognisable"
    verdict = f"{word}: {clear} of {len(values)} at {RECOGNISABLE:.0f} dB or more, best {max(values):.1f} dB"
    return InputLeak(
        attack, verdict, clear > 0, quality, restored.objective, _null_space(target, rows),
        pictures=_pictures(truth, shown[match(shown, truth)]),
    )  # fmt: skip


def _pictures(*parts: torch.Tensor) -> Pictures:
    if parts[0].dim() != 4 or parts[0].shape[1] not in (1, 3):
        return []
    return [[image.double().cpu().numpy() for image in part] for part in parts]


def _null_space(target: Target, rows: Sequence[int] | None) -> NullSpace | None:
    if rows is None or len(rows) * target.box.low.numel() > NULL_SPACE_VALUES:
        return None
    if any(isinstance(m, nn.modules.batchnorm._BatchNorm) for m in target.stepper.live.model.modules()):
        return None
    return null_space(target, target.inputs_of(rows), target.labels_of(rows))


def _text(target: Target, rows: Sequence[int] | None) -> InputLeak:
    """Tokens from the embedding's rows, and for one example their order."""
    present = set(tokens_present(target).tolist())
    found: dict[str, Any] = {"present": len(present)}
    verdict = f"{len(present)} tokens were in the batch"
    if rows is not None:
        data = target.stepper.task.dataset.inputs[list(rows)]
        exact = present == set(np.unique(data).tolist())
        found["exact"] = exact
        verdict = f"which {len(present)} tokens were in the batch: {'exactly' if exact else 'not exactly'} recovered"
    if target.count == 1:
        order = ordered_tokens(target)
        found["placed"] = float((order != UNKNOWN).mean())
        verdict += f"; {found['placed']:.0%} of the positions placed"
        if rows is not None:
            found["placed rightly"] = float((order == data[0]).mean())
            verdict += f", {found['placed rightly']:.0%} rightly"
    return InputLeak("tokens", verdict, found.get("exact", True) and len(present) > 0, tokens=found)

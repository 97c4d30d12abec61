"""leak: what one shared gradient of a model says about its batch, in plain words."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from trainwitness.audit.leak_inputs import InputLeak, inputs_of
from trainwitness.audit.leak_subject import Subject
from trainwitness.core.errors import UsageError
from trainwitness.core.seeds import derive
from trainwitness.leakage.defences import Defence, clipped, defended
from trainwitness.leakage.inputs.target import Target
from trainwitness.leakage.labels.final_layer import FinalLayer
from trainwitness.leakage.labels.metrics import counts_of, le_acc, ln_acc
from trainwitness.leakage.labels.restorer import NEED_AUXILIARY, RESTORERS, Auxiliary, Restored, restore
from trainwitness.leakage.labels.whole_counts import whole_counts
from trainwitness.training.final_layer import final_pass, last_linear
from trainwitness.training.stepper import fetch

AUXILIARY = 500
"""Rows of the test part (or of the rest of the data) that an attacker is granted."""
EXACT, ABOVE_GUESSING = 0.99, 0.1
DEVIATIONS = 2.5
"""Standard deviations of a guesser's luck that a method must be above guessing."""
RISK_SIZES = (1, 4, 16, 64, 256, 1024)
RLG_CLASSES = 200
"""With more classes, RLG's linear programs take minutes."""


@dataclass(frozen=True)
class LabelLeak:
    """One method over the audited batches."""

    method: str
    le_acc: float | None
    ln_acc: float | None
    counts: list[int] | None
    """Of the first batch."""
    confidence: float | None
    """Mean over classes of the first batch."""


@dataclass(frozen=True, eq=False)
class LeakReport:
    """The answer, with what it rests on."""

    subject: str
    stage: str
    batch_size: int
    batches: int
    defence: str
    labels: list[LabelLeak]
    guessing: float | None
    """LnAcc of guessing by the classes' frequencies."""
    labels_found: bool
    """Whether any method did better than guessing."""
    label_verdict: str
    inputs: InputLeak
    risk: list[dict[str, Any]] = field(default_factory=list)

    @property
    def finding(self) -> bool:
        """Whether something was recovered."""
        return self.labels_found or self.inputs.finding

    def to_json(self) -> dict[str, Any]:
        """Plain data, without pictures."""
        out = {key: value for key, value in vars(self).items() if key not in ("labels", "inputs")}
        return out | {
            "finding": self.finding,
            "labels": [asdict(leak) for leak in self.labels],
            "inputs": self.inputs.to_json(),
        }


def leak(
    subject: Subject,
    *,
    batch_size: int,
    defence: Defence | None = None,
    batches: int = 5,
    attack: str = "auto",
    iterations: int = 500,
    restarts: int = 1,
    risk: bool = True,
    advance: Callable[[str], None] = lambda _: None,
) -> LeakReport:
    """Attacks the labels of `batches` random batches with every method, and the inputs of the first one."""
    size = len(subject.rows) if subject.rows is not None else batch_size
    known = subject.shared is None
    repeated = batches if known and subject.rows is None else 1
    auxiliary = _auxiliary(subject)
    found: dict[str, list[tuple[Restored, Any]]] = {}
    first, rows = None, None
    for number in range(repeated):
        advance(f"labels, batch {number + 1} of {repeated}")
        chosen = subject.batch(size, number) if known else None
        target = shared_target(subject, chosen, size, defence, number)
        first, rows = (target, chosen) if first is None else (first, rows)
        truth = None if chosen is None else _truth(subject, chosen)
        for name, restored in _methods(subject, target, auxiliary).items():
            found.setdefault(name, []).append((restored, truth))
    assert first is not None
    labels = [_summary(name, pairs) for name, pairs in found.items()]
    guessing = _guessing(subject, size, repeated) if known else None
    advance("inputs")
    best = max(
        (pairs[0][0] for pairs in found.values() if pairs[0][0].counts is not None), key=_sureness, default=None
    )
    counts = None if best is None else best.counts
    inputs = inputs_of(first, rows, counts, attack=attack, iterations=iterations, restarts=restarts)
    table = _risk(subject, defence, auxiliary, advance) if risk and known and subject.rows is None else []
    return LeakReport(
        subject.name, subject.stage, size, repeated, defence.label if defence else "none", labels, guessing,
        *_label_verdict(labels, guessing, repeated), inputs, table,
    )  # fmt: skip


def shared_target(
    subject: Subject, rows: Sequence[int] | None, size: int, defence: Defence | None, number: int
) -> Target:
    """The gradient as it is shared: of the rows, or from the file; defended where asked for."""
    seed = derive(subject.stepper.task.seed, "leak defence", number)
    if rows is None:
        assert subject.shared is not None
        gradient = subject.shared if defence is None else defended(subject.shared, defence, seed)
        return Target(subject.stepper, subject.state, gradient, size)
    if defence is not None and defence.per_example:
        gradient = clipped(subject.stepper, subject.state, rows, defence, seed)
        return Target(subject.stepper, subject.state, gradient, size)
    target = subject.target(rows)
    if defence is None:
        return target
    return Target(subject.stepper, subject.state, defended(target.gradient, defence, seed), size)


def _methods(subject: Subject, target: Target, auxiliary: Auxiliary | None) -> dict[str, Restored]:
    """Every method that can be used here."""
    name, _ = last_linear(subject.stepper.live.model)
    gradient = FinalLayer.named(target.gradient, name)
    layer = FinalLayer.named(subject.state.part("param"), name)
    out = {}
    for method in RESTORERS:
        if (method in NEED_AUXILIARY and auxiliary is None) or (method == "rlg" and layer.classes > RLG_CLASSES):
            continue
        try:
            out[method] = restore(method, gradient, layer, target.count, auxiliary)
        except UsageError:
            if gradient.bias is not None:
                raise
    return out


def _auxiliary(subject: Subject) -> Auxiliary | None:
    """Embeddings and labels of other rows: the task's test part."""
    stepper, data = subject.stepper, subject.stepper.task.test
    if data is None:
        return None
    inputs, labels = fetch(data, range(min(AUXILIARY, len(data))), stepper.device, stepper.dtype)
    seen = final_pass(stepper, subject.state, inputs, labels)
    return Auxiliary(seen.embeddings.double().cpu().numpy(), labels.cpu().numpy())


def _classes(subject: Subject) -> int:
    _, last = last_linear(subject.stepper.live.model)
    return max(2, last.out_features)


def _truth(subject: Subject, rows: Sequence[int]) -> Any:
    return counts_of(subject.stepper.task.dataset.labels[list(rows)], _classes(subject))


def _summary(method: str, pairs: list[tuple[Restored, Any]]) -> LabelLeak:
    first = pairs[0][0]
    counts = None if first.counts is None else [int(k) for k in first.counts]
    sure = None if first.confidence is None else float(first.confidence.mean())
    if pairs[0][1] is None:
        return LabelLeak(method, None, None, counts, sure)
    existence = float(np.mean([le_acc(restored, truth) for restored, truth in pairs]))
    numbers = [ln_acc(restored, truth) for restored, truth in pairs]
    return LabelLeak(
        method,
        existence,
        None if counts is None else float(np.mean([n for n in numbers if n is not None])),
        counts,
        sure,
    )


def _sureness(restored: Restored) -> float:
    return 0.0 if restored.confidence is None else float(restored.confidence.mean())


def _guessing(subject: Subject, size: int, batches: int) -> float:
    """LnAcc of the whole counts nearest to K times the data set's class frequencies."""
    labels = subject.stepper.task.dataset.labels
    expected = whole_counts(size * counts_of(labels, _classes(subject)) / len(labels), size)
    return float(np.mean([(expected == _truth(subject, subject.batch(size, k))).mean() for k in range(batches)]))


def _label_verdict(labels: list[LabelLeak], guessing: float | None, batches: int) -> tuple[bool, str]:
    """Whether labels were recovered, and how far, in words."""
    counting = [leak for leak in labels if leak.counts is not None]
    if guessing is None:
        sure = max((leak.confidence or 0.0 for leak in counting), default=0.0)
        word = "exactly" if sure > EXACT else "partly" if sure > 0.5 else "not"
        return sure > 0.5, f"{word} recoverable (by the method's own confidence, {sure:.2f})"
    best = max((leak.ln_acc or 0.0 for leak in counting), default=0.0)
    if best >= EXACT:
        return True, "exactly recoverable: how many examples of every class were in the batch"
    exists = max((leak.le_acc or 0.0 for leak in labels), default=0.0)
    counted = batches * max((len(leak.counts or ()) for leak in counting), default=1)
    luck = DEVIATIONS * math.sqrt(guessing * (1 - guessing) / counted)
    if best > guessing + max(ABOVE_GUESSING, luck) or (not counting and exists > EXACT):
        return True, f"partly recoverable: {best:.0%} of the counts (guessing: {guessing:.0%})"
    return False, f"not recoverable beyond guessing ({best:.0%} of the counts, guessing: {guessing:.0%})"


def _risk(
    subject: Subject, defence: Defence | None, auxiliary: Auxiliary | None, advance: Callable[[str], None]
) -> list[dict[str, Any]]:
    """The best LnAcc at other batch sizes, two batches each."""
    out = []
    for size in RISK_SIZES:
        if size > len(subject.stepper.task.dataset):
            break
        advance(f"risk at batch size {size}")
        accuracies: dict[str, list[float]] = {}
        for number in range(2):
            rows = subject.batch(size, number)
            target = shared_target(subject, rows, size, defence, number)
            for name, restored in _methods(subject, target, auxiliary).items():
                found = ln_acc(restored, _truth(subject, rows))
                if found is not None:
                    accuracies.setdefault(name, []).append(found)
        means = {name: float(np.mean(values)) for name, values in accuracies.items()}
        if means:
            best = max(means, key=lambda name: means[name])
            out.append(
                {"batch": size, "best LnAcc": means[best], "method": best, "guessing": _guessing(subject, size, 2)}
            )
    return out

"""One content per index: over how many epochs can examples be forged with one and the same replacement?"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from trainwitness.core.numerics import Numerics
from trainwitness.experiments.experiment import Setting
from trainwitness.forging.epochs import Conditions, Run, honest_run, stacked
from trainwitness.forging.integers import HOPELESS, Effort, Whole, plan_change, roundings

GREY_LEVELS = 20.0
"""Root mean square of the changes whose errors are compared."""
EXPONENTS = (8, 6, 4, 2)
ROLLS = 6
"""Whole numbers: roundings of one plan at one scale; the best that stays inside the domain counts."""


class Attempt(NamedTuple):
    """Whole numbers: which pixels may change (those inked most often; black ones have little room), and how."""

    pixels: int
    margin: float
    setting: int
    calm: float


ATTEMPTS = (Attempt(250, 1.0, 200, 0.0), Attempt(784, 4.0, 200, 0.0), Attempt(784, 8.0, 250, 1.0))


@dataclass(frozen=True)
class Case:
    """Rows in batches of `size`; `side` x `side` pixels in the middle may change (real numbers), or all."""

    task: str
    rows: int
    size: int
    epochs: tuple[int, ...]
    side: int = 28


REAL = (
    Case("softmax-mnist", 400, 100, (1, 4, 6, 7, 8, 9, 12), side=14),
    Case("softmax-mnist", 300, 100, (1, 8, 10, 12)),
    Case("mlp-mnist", 300, 100, (1, 2, 3, 4), side=14),
    Case("mlp-mnist", 300, 100, (1, 2, 3, 4)),
)
WHOLE = (
    Case("softmax-mnist", 300, 300, (1, 2, 3)),
    Case("softmax-mnist", 200, 100, (1, 2)),
    Case("mlp-mnist", 300, 300, (1, 2)),
)
QUICK_REAL = (Case("softmax-mnist", 60, 20, (1, 2, 3), side=8),)
QUICK_WHOLE = (Case("softmax-mnist", 60, 60, (1,)),)


def run(setting: Setting) -> dict[str, Any]:
    rows: list[dict[str, Any]] = []
    for case in QUICK_REAL if setting.quick else REAL:
        named, honest = _honest(setting, case)
        for epochs in case.epochs:
            setting.advance(f"{case.task}, b = {case.size}, {epochs} epochs, real numbers")
            rows.append(_row(case, named, epochs, "real", _real(case, honest, epochs)))
    for case in QUICK_WHOLE if setting.quick else WHOLE:
        named, honest = _honest(setting, case)
        for epochs in case.epochs:
            setting.advance(f"{case.task}, b = {case.size}, {epochs} epochs, whole numbers")
            rows.append(_row(case, named, epochs, "whole", _whole(honest.first(epochs * case.rows // case.size))))
    notes = [
        "every row of a small data set is changed, with one content in all epochs; error: the largest of all steps, "
        "in float64; benign: float32 against float64 in the honest steps",
        f"real: a random change in the null space of all conditions, scaled to {GREY_LEVELS:.0f} grey levels (root "
        "mean square) and not kept to 0..255; freedom: the share of the change's dimensions that is left, counted "
        "(not above 0: none) and found",
        "whole: integers in 0..255 towards other images by the lattice forger, where all rows obey all steps' "
        "weights; pixels: those inked most often, or all; none: it found nothing in the domain",
    ]
    return {"rows": rows, "notes": notes}


def _honest(setting: Setting, case: Case) -> tuple[str, Run]:
    task = setting.task(case.task)
    return task.spec.name if task.spec else case.task, honest_run(task, case.rows, case.size, max(case.epochs))


def _row(case: Case, named: str, epochs: int, numbers: str, found: dict[str, Any]) -> dict[str, Any]:
    return {
        "task": named, "numbers": numbers, "rows": case.rows, "b": case.size, "pixels": case.side**2,
        "epochs": epochs, "freedom counted": None, "freedom found": None, "changed by": None, **found,
    }  # fmt: skip


def _real(case: Case, honest: Run, epochs: int) -> dict[str, Any]:
    started = time.perf_counter()
    short = honest.first(epochs * case.rows // case.size)
    columns = middle(case.side)
    conditions = Conditions(short, columns)
    wanted = np.random.default_rng(0).normal(size=(case.rows, len(columns)))
    change = conditions.remainder(wanted, iterations=600 if len(columns) < 200 else 300)
    left = float((change**2).sum() / (wanted**2).sum())
    found: dict[str, Any] = {
        "freedom counted": 1 - conditions.count / conditions.unknowns,
        "freedom found": left,
    }
    if left < 1e-20:
        return found | {"error": None, **_benign(short), "outcome": "none", "seconds": time.perf_counter() - started}
    change *= GREY_LEVELS / np.sqrt((change**2).mean())
    error = max(short.errors(short.with_change(change, columns), Numerics(precision="float64")))
    return found | {
        "changed by": GREY_LEVELS, "error": error, **_benign(short), "outcome": "forged",
        "seconds": time.perf_counter() - started,
    }  # fmt: skip


def _whole(honest: Run) -> dict[str, Any]:
    started = time.perf_counter()
    benign = _benign(honest)
    best: dict[str, Any] = {"error": None, "outcome": "none"}
    for attempt in ATTEMPTS:
        inked = np.sort(np.argsort(-(honest.values > 0).mean(0), kind="stable")[: attempt.pixels])
        for whole in _rounded(honest, inked, attempt):
            moved = whole.values - honest.values[:, inked]
            error = max(honest.errors(honest.with_change(moved, inked), Numerics(precision="float64")))
            if best["error"] is None or error < best["error"]:
                changed = int((moved != 0).any(1).sum())
                best = {
                    "pixels": attempt.pixels, "changed by": float(np.sqrt((moved**2).mean())), "error": error,
                    "outcome": f"forged, {changed} of {len(moved)} images changed",
                }  # fmt: skip
        if best["error"] is not None and best["error"] <= 2 * benign["benign"]:
            break
    return best | benign | {"seconds": time.perf_counter() - started}


def _rounded(honest: Run, columns: npt.NDArray[np.int64], attempt: Attempt) -> Iterator[Whole]:
    """Whole numbers inside the domain, if there are any; at the finest scale that stays inside."""
    values = honest.values[:, columns]
    weights, errors = stacked(honest)
    goal = values[np.random.default_rng(0).permutation(len(values))]
    how = attempt._asdict()
    del how["pixels"]
    plan = plan_change(values, weights[columns], errors, goal, low=0, high=255, **how)
    if plan is None:
        return
    for exponent in EXPONENTS:
        stream = roundings(plan, Effort(2.0**exponent, block=0))
        first = next(stream)
        if first.outside > HOPELESS:
            continue
        inside = [whole for whole in (first, *islice(stream, ROLLS - 1)) if not whole.outside]
        if inside:
            yield from inside
            return


def _benign(honest: Run) -> dict[str, float]:
    return {"benign": max(honest.rounding())}


def middle(side: int, whole: int = 28) -> npt.NDArray[np.int64]:
    """The pixels of the square in the middle of an image."""
    first = (whole - side) // 2
    return np.arange(whole * whole).reshape(whole, whole)[first : first + side, first : first + side].ravel()

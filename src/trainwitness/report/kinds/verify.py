"""A verdict: the answer in plain words, its properties, the errors of all steps, and how near attacks came."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from trainwitness.core.verdict import PROPERTIES
from trainwitness.report.blocks import Block, Claim, Claims, Facts, Plot, Section, Series, Table, Tone, Words
from trainwitness.report.kinds.kind import tells
from trainwitness.report.plots import floor_of, thinned
from trainwitness.report.read import Envelope
from trainwitness.verification.noise import NOT_HARDWARE

MEANING: dict[str, tuple[Tone, str]] = {
    "ACCEPT": ("good", "The steps were computed again and give what the trace says."),
    "REJECT": ("bad", "Something the trace says is not so."),
    "INCONCLUSIVE": ("open", "Neither shown to be true nor shown to be false."),
}
WORST = 5
MARGIN_COLUMNS = {
    "step": "step",
    "whole batch: error": "error_whole",
    "found by": "attack_whole",
    "orders above the threshold": "whole",
    "one example: error": "error_single",
    "by": "attack_single",
    "orders": "single",
}


@tells("verify")
def tell(envelope: Envelope, everything: Sequence[Envelope]) -> Section:
    """The section of one verdict."""
    result = envelope.result
    return section(result, [other.result for other in everything if other.kind == "calibrate"])


def section(verdict: Mapping[str, Any], calibrations: Sequence[Mapping[str, Any]] = ()) -> Section:
    """A verdict with the noise of calibrations of the same task beside its errors."""
    answer = str(verdict["verdict"])
    tone, meaning = MEANING.get(answer, ("open", ""))
    task = verdict.get("task") or {}
    fitting = [found for found in calibrations if (found.get("task") or {}).get("name") == task.get("name")]
    blocks: list[Block] = [Words([meaning, *verdict["reasons"][1:]])]
    blocks.append(Claims([_claim(name, found) for name, found in verdict["properties"].items()]))
    blocks.append(_facts(verdict, task))
    if verdict["steps"]:
        blocks.append(errors_plot(verdict, fitting[0] if fitting else None))
        blocks.append(_worst(verdict["steps"]))
    blocks += _red_team(verdict.get("red_team"))
    name = task.get("name") or "a task of the verifier's own"
    return Section(f"{name}: {verdict['reasons'][0] if verdict['reasons'] else meaning}", blocks, tone, answer)


def _claim(name: str, found: Mapping[str, Any]) -> Claim:
    meanings = {str(key): meaning for key, meaning in PROPERTIES.items()}
    return Claim(name, meanings.get(name, ""), found["standing"], found["why"])


def _facts(verdict: Mapping[str, Any], task: Mapping[str, Any]) -> Facts:
    threshold = verdict["threshold"] or {}
    rejection = threshold.get("false_rejection") or {}
    options = {f"task's {key}": value for key, value in (task.get("options") or {}).items()}
    facts = {
        "States recomputed": len(verdict["steps"]),
        "bit for bit": sum(bool(step["exact"]) for step in verdict["steps"]),
        "largest l2 error": verdict["max_l2"],
        "threshold": threshold.get("value", "none"),
        "threshold comes from": threshold.get("origin"),
        "made to reject honest traces": rejection.get("stated"),
        "held-out honest errors": rejection.get("held_out"),
        "of these above the threshold": rejection.get("held_out_above"),
        "recomputed in": verdict["recomputed_on"],
        "sealed": "yes" if verdict["sealed"] else "no: the recording was interrupted",
        "step root (commits to every step)": verdict["step_root"],
    }
    return Facts("What was computed", {key: value for key, value in (facts | options).items() if value is not None})


def errors_plot(verdict: Mapping[str, Any], calibration: Mapping[str, Any] | None) -> Plot:
    """Errors over steps on a logarithmic axis, with the threshold and the honest noise."""
    steps = verdict["steps"]
    x, errors = thinned([step["step"] for step in steps], [step["l2"] for step in steps])
    limit = (verdict["threshold"] or {}).get("value")
    noise = list(_noise(calibration, x))
    floor = floor_of(*errors, limit, *(low for band in noise for low in band.low))
    series = [
        Series("l2 error", x, [error or None for error in errors], "points"),
        Series(
            "exactly 0", [k for k, error in zip(x, errors, strict=True) if error == 0],
            [floor] * sum(error == 0 for error in errors), "hollow",
            notes=[f"step {k}: exactly 0" for k, error in zip(x, errors, strict=True) if error == 0],
        ),
        *_limits(steps, x, limit),
        *noise,
    ]  # fmt: skip
    group = -(-len(steps) // max(len(x), 1))
    about = "" if group <= 1 else f"Of every {group} steps in a row the largest error is drawn. "
    about += "Errors of exactly 0 have no place on this axis and are drawn at its foot." if 0 in errors else ""
    columns = ["step", "l2", "linf", "relative", "buffers", "optimizer", "exact"]
    rows = [[step.get(column) for column in columns] for step in steps]
    return Plot(
        "Errors over the steps", "step", "l2 error of the parameters", [s for s in series if len(s.x)],
        Table("errors of all steps", columns, rows), about=about,
    )  # fmt: skip


def _limits(steps: Sequence[Mapping[str, Any]], x: Sequence[int], limit: float | None) -> Iterator[Series]:
    if limit:
        yield Series("threshold", [x[0], x[-1]], [limit, limit], "limit")
    own = [(step["step"], step["limit"]) for step in steps if step.get("limit") is not None]
    if own:
        kept, limits = thinned([step for step, _ in own], [value for _, value in own])
        yield Series("limit of this step", kept, limits, "line")


def _noise(calibration: Mapping[str, Any] | None, x: Sequence[int]) -> Iterator[Series]:
    """Where nine of ten honest errors above 0 lie, and the largest of all, which may be a jump at a near tie."""
    if calibration is None:
        return
    errors = sorted(l2 for _, _, source, l2, *_ in calibration["samples"] if l2 and source not in NOT_HARDWARE)
    if errors:
        low, high = errors[len(errors) // 20], errors[-1 - len(errors) // 20]
        yield Series("honest noise, 5% to 95%", [x[0], x[-1]], [high] * 2, "band", low=[low] * 2)
        yield Series("largest honest error", [x[0], x[-1]], [calibration["eps_repr"]] * 2, "limit")


def _worst(steps: Sequence[Mapping[str, Any]]) -> Table:
    worst = sorted(steps, key=lambda step: -(step["l2"] or 0))[:WORST]
    rows = [
        [s["step"], s["l2"], s["relative"], s["buffers"], s["optimizer"], "; ".join(s["problems"])] for s in worst
    ]
    header = ["step", "l2 error", "of the update", "buffers", "optimiser", "problems"]
    return Table("Largest errors", header, rows)


def _red_team(margin: Mapping[str, Any] | None) -> Iterator[Block]:
    if not margin or not margin["steps"]:
        return
    steps = margin["steps"]
    names = [f"step {step['step']}" for step in steps]
    yield Plot(
        "Forgery margins", "attacked step", "orders of magnitude above the threshold",
        [
            Series("whole batch replaced", names, [step["whole"] for step in steps], "bars"),
            Series("one example replaced", names, [step["single"] for step in steps], "bars"),
        ],
        Table("attacks", list(MARGIN_COLUMNS), [[s[key] for key in MARGIN_COLUMNS.values()] for s in steps]),
        log=False,
        about="How far the best known attack stays above the threshold. At 0 and below a forgery would pass.",
    )  # fmt: skip

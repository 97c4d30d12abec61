"""A calibration: honest noise on one machine, by source and stage of training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from trainwitness.report.blocks import Block, Facts, Plot, Section, Series, Table
from trainwitness.report.kinds.kind import tells
from trainwitness.report.read import Envelope
from trainwitness.verification.noise import SOURCES

SPREADS = {"median": "median", "quantile_90": "90%", "quantile_99": "99%", "largest": "largest"}


@tells("calibrate")
def tell(envelope: Envelope, _all: Sequence[Envelope]) -> Section:
    """The section of one calibration."""
    found = envelope.result
    sources = dict(sorted(found["sources"].items(), key=lambda item: -item[1]["all"]["largest"]))
    numerics, task = found["numerics"], (found["task"] or {}).get("name", "a task of its owner's own")
    where = f"{numerics['precision']} on {numerics['device']}"
    headline = (
        f"{task}: honest recomputations in {where} differ by up to {found['eps_repr']:.2e}"
        f" ({len(found['samples'])} of them, {found['steps']} steps)"
    )
    facts = {
        "eps_repr, the largest honest error": found["eps_repr"],
        "steps sampled": found["steps"],
        "of a training of": found["horizon"],
        "recomputations of each": found["repeats"],
        "seconds": found["seconds"],
        **{f"not measured: {name}": why for name, why in found["unavailable"].items()},
    }
    blocks: list[Block] = [Facts("Calibration", facts), _by_source(sources), _by_stage(sources, found["stages"])]
    return Section(headline, blocks)


def _by_source(sources: Mapping[str, Any]) -> Plot:
    names = list(sources)
    series = [
        Series(word, names, [sources[name]["all"][key] or None for name in names], "points")
        for key, word in SPREADS.items()
    ]
    header = ["source", "largest", "99%", "90%", "median", "count", "exactly 0", "what varied"]
    keys = ("largest", "quantile_99", "quantile_90", "median", "count", "exactly_zero")
    rows = [[name, *(sources[name]["all"][key] for key in keys), SOURCES.get(name, "")] for name in names]
    return Plot(
        "Honest noise by source", "source", "l2 error", series, Table("noise by source", header, rows),
        about="Sources whose errors are all exactly 0 have no points.",
    )  # fmt: skip


def _by_stage(sources: Mapping[str, Any], stages: Sequence[Sequence[int]]) -> Plot:
    names = [f"steps {first} to {last - 1}" for first, last in stages]
    spreads = {
        name: [None if stage is None else stage["largest"] for stage in source["stages"]]
        for name, source in sources.items()
    }
    series = [Series(name, names, [value or None for value in values]) for name, values in spreads.items()]
    rows = [[name, *values] for name, values in spreads.items()]
    return Plot(
        "Largest honest error by stage of training", "stage", "l2 error",
        [one for one in series if any(one.y)], Table("largest by stage", ["source", *names], rows),
    )  # fmt: skip

"""A table or figure of the papers, measured again: ours beside theirs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from trainwitness.experiments.experiment import EXPERIMENTS
from trainwitness.report.blocks import Block, Plot, Section, Series, Table, Words
from trainwitness.report.kinds.any import table
from trainwitness.report.kinds.kind import tells
from trainwitness.report.read import Envelope


@tells("reproduce/*")
def tell(envelope: Envelope, _all: Sequence[Envelope]) -> Section:
    """The section of one experiment."""
    return section(envelope)


def section(envelope: Envelope, *blocks: Block) -> Section:
    """What every experiment has, after the blocks that are its own."""
    name = envelope.kind.partition("/")[2]
    reproduces, about = EXPERIMENTS.get(name, ("", name))
    result = envelope.result
    quick = ", a quick run" if result.get("quick") else ""
    rows = table(f"{name}: rows", result["rows"])
    return Section(
        f"{about} ({reproduces}{quick}; on {result.get('device', 'cpu')})",
        [*blocks, *_beside(result["rows"], rows), rows, Words(result["notes"])],
    )


def _beside(rows: Sequence[Mapping[str, Any]], whole: Table) -> Iterator[Plot]:
    """Ours and the paper's figure, where both are of the same quantity."""
    if not rows or "ratio" not in rows[0]:
        return
    names = [_label(row) for row in rows]
    ours, paper = ([row.get(key) or None for row in rows] for key in ("ours", "paper"))
    series = [Series("ours", names, ours, "points"), Series("paper", names, paper, "hollow")]
    yield Plot(
        "Ours and the papers'", "", "measured", [one for one in series if any(one.y)], whole,
        about="Figures of exactly 0 have no point on this axis." if any(row.get("ours") == 0 for row in rows) else "",
    )  # fmt: skip


def _label(row: Mapping[str, Any]) -> str:
    """What a row is about: its words and whole numbers before the measurements."""
    words = []
    for key, value in row.items():
        if isinstance(value, float) or value is None:
            break
        words.append(str(value) if isinstance(value, str) else f"{key} {value}")
    return ", ".join(words)

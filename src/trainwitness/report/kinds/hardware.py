"""Recorded on one device, verified on another: a matrix."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from trainwitness.report.blocks import Section, Table
from trainwitness.report.kinds.kind import tells
from trainwitness.report.kinds.reproduce import section
from trainwitness.report.read import Envelope


@tells("reproduce/hardware")
def tell(envelope: Envelope, _all: Sequence[Envelope]) -> Section:
    """The matrices, and then what every experiment has."""
    return section(envelope, *_matrices(envelope.result["rows"]))


def _matrices(rows: Sequence[Mapping[str, Any]]) -> Iterator[Table]:
    groups: dict[tuple[Any, ...], dict[tuple[str, str], float]] = {}
    for row in rows:
        key = (row["task"], row["batch"], row["deterministic"])
        groups.setdefault(key, {})[row["from"], row["to"]] = row["ours"]
    for (task, batch, deterministic), found in groups.items():
        sources, targets = (sorted({pair[k] for pair in found}) for k in (0, 1))
        yield Table(
            f"{task}, batches of {batch}, deterministic algorithms {deterministic}: largest l2 error",
            ["recorded on", *(f"verified on {target}" for target in targets)],
            [[source, *(found.get((source, target)) for target in targets)] for source in sources],
        )

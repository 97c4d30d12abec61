"""Where two traces part."""

from __future__ import annotations

from collections.abc import Sequence

from trainwitness.report.blocks import Section, Table
from trainwitness.report.kinds.kind import tells
from trainwitness.report.read import Envelope


@tells("diff")
def tell(envelope: Envelope, _all: Sequence[Envelope]) -> Section:
    """The section of one comparison."""
    if envelope.result["same"]:
        return Section("The two traces record the same run, bit for bit", [], "good")
    rows = [
        ["manifest" if found["step"] is None else f"step {found['step']}", found["what"]]
        for found in envelope.result["differences"]
    ]
    return Section(
        f"The two traces differ, first in: {rows[0][1]}", [Table("Differences", ["where", "what"], rows)], "bad"
    )

"""A claimant's example, looked for in all that a trace used."""

from __future__ import annotations

from collections.abc import Sequence

from trainwitness.report.blocks import Facts, Section, Table, Words
from trainwitness.report.kinds.kind import tells
from trainwitness.report.read import Envelope


@tells("claim")
def tell(envelope: Envelope, _all: Sequence[Envelope]) -> Section:
    """The section of one search."""
    found = envelope.result
    rows = [
        (copy["kind"], use["row"], copy["share"], copy["distance"], use["same_label"], len(use["steps"]))
        for use in found["uses"]
        for copy in [use["copy"]]
    ]
    facts = {
        "contents looked through": found["contents"],
        "steps": found["steps"],
        "steps whose States give it away": len(found["by_gradient"]),
    }
    header = ["copy", "row", "share", "distance", "same label", "steps"]
    uses = Table("Where it was used", header, rows)
    return Section(
        "the example was found in the trace"
        if found["found"]
        else "the example is not in what the trace says it used",
        [Words(found["notes"]), Facts("The search", facts), *([uses] if rows else [])],
        answer="FOUND" if found["found"] else "NOT FOUND",
        tone="bad" if found["found"] else "plain",
    )

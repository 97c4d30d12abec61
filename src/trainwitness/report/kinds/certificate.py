"""Whether a pool's gradients are independent, so that no other choice from it has the same exact sum."""

from __future__ import annotations

from collections.abc import Sequence

from trainwitness.report.blocks import Facts, Section, Words
from trainwitness.report.kinds.kind import tells
from trainwitness.report.read import Envelope


@tells("certificate")
def tell(envelope: Envelope, _all: Sequence[Envelope]) -> Section:
    """The section of one certificate."""
    found = envelope.result
    facts = {key: value for key, value in found.items() if key not in ("not_covered", "holds")}
    proved = f"no other choice of rows from this pool of {found['examples']} has the same exact sum of gradients"
    return Section(
        proved if found["holds"] else "the gradients are not independent modulo 2, which says nothing either way",
        [Words([f"Not covered: {gap}" for gap in found["not_covered"]]), Facts("Certificate", facts)],
        answer="CERTIFIED" if found["holds"] else "NOT CERTIFIED",
        tone="good" if found["holds"] else "open",
    )

"""A recording."""

from __future__ import annotations

from collections.abc import Sequence

from trainwitness.report.blocks import Facts, Section
from trainwitness.report.kinds.kind import tells
from trainwitness.report.read import Envelope


@tells("record")
def tell(envelope: Envelope, _all: Sequence[Envelope]) -> Section:
    """The section of one recording."""
    done = envelope.result
    accuracy = "" if done["test_accuracy"] is None else f"; test accuracy {done['test_accuracy']:.3f}"
    return Section(f"{done['steps']} steps were recorded{accuracy}", [Facts("Recording", done)])

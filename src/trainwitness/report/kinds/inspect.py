"""What a trace says about itself."""

from __future__ import annotations

from collections.abc import Sequence

from trainwitness.report.blocks import Facts, Section, Words
from trainwitness.report.kinds.any import blocks
from trainwitness.report.kinds.kind import tells
from trainwitness.report.read import Envelope


@tells("inspect")
def tell(envelope: Envelope, _all: Sequence[Envelope]) -> Section:
    """The section of one trace that was read, and not recomputed."""
    found, manifest = envelope.result, envelope.result["manifest"]
    task = (manifest["task"] or {}).get("name") or "a loop of its owner's own"
    facts = {
        "trace": found["id"],
        "task": task,
        "data set": manifest["data"]["name"],
        "rows": manifest["data"]["rows"],
        "data root (commits to every row)": manifest["data"]["root"],
        "seed": manifest["seed"],
        "model": manifest["model"],
        "parameters": manifest["parameters"],
        "optimiser": manifest["optimizer"],
    }
    state = "sealed" if found["sealed"] else "unsealed: the recording was interrupted"
    return Section(
        f"{task}: a trace of {found['checked']['steps']} steps, {state}; all digests match",
        [Words(["The trace was read to the last byte. Nothing was recomputed."]), Facts("What it says", facts)],
        "plain" if found["sealed"] else "open",
        details=list(blocks({"checked": found["checked"], "manifest": manifest})),
    )

"""What a batch's gradient gives away: labels and inputs."""

from __future__ import annotations

from collections.abc import Sequence

from trainwitness.report.blocks import Block, Facts, Plot, Section, Series
from trainwitness.report.kinds.any import table
from trainwitness.report.kinds.kind import tells
from trainwitness.report.read import Envelope


@tells("leak")
def tell(envelope: Envelope, _all: Sequence[Envelope]) -> Section:
    """The section of one attack on a gradient."""
    found = envelope.result
    inputs = found.get("inputs") or {}
    facts = {key: value for key, value in found.items() if not isinstance(value, (list, dict))}
    blocks: list[Block] = [Facts("What was attacked", facts)]
    if found.get("risk"):
        sizes = [row["batch"] for row in found["risk"]]
        blocks.append(
            Plot(
                "Labels recovered by batch size", "examples in the batch", "share of batches' label counts",
                [
                    Series("best method", sizes, [row["best LnAcc"] for row in found["risk"]], "line"),
                    Series("guessing", sizes, [row["guessing"] for row in found["risk"]], "limit"),
                ],
                table("by batch size", found["risk"]), log=False,
            )
        )  # fmt: skip
    blocks += [table("Labels, by method", found["labels"])] if found.get("labels") else []
    if inputs:
        blocks.append(
            Facts("Inputs", {key: item for key, item in inputs.items() if not isinstance(item, (list, dict))})
        )
        blocks += [table("Inputs, by example", inputs["quality"])] if inputs.get("quality") else []
    headline = f"{found['subject']}: labels {found['label_verdict']}"
    return Section(headline, blocks, "bad" if found["finding"] else "open")

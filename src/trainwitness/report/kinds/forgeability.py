"""What could hide behind a step: three questions, each shown, not found with this effort, or excluded."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any

from trainwitness.report.blocks import Block, Claim, Claims, Facts, Pair, Pairs, Plot, Section, Series, Tone, Words
from trainwitness.report.kinds.any import table
from trainwitness.report.kinds.kind import tells
from trainwitness.report.pictures import picture_of
from trainwitness.report.read import Envelope

STANDINGS = {"shown": "refuted", "excluded": "established"}
"""A forgery that was shown refutes the data; one that is excluded is what a property calls established."""


@tells("forgeability")
def tell(envelope: Envelope, _all: Sequence[Envelope]) -> Section:
    """The section of one audit."""
    found = envelope.result
    shown = [answer["question"] for answer in found["answers"] if answer["standing"] == "shown"]
    valid = [question for question in shown if question != "real numbers"]
    headline = (
        f"step {found['step']}: a forgery was shown with {', '.join(shown)}"
        if shown
        else (f"step {found['step']}: no forgery was found with this effort")
    )
    tone: Tone = "bad" if valid else "open"
    blocks: list[Block] = [
        Words(["What other batch could hide behind this step?", *(f"Advice: {line}" for line in found["advice"])]),
        Claims([_claim(answer) for answer in found["answers"]], title="What could be forged"),
        _errors(found),
        *_pairs(found["examples"]),
        Facts("Freedom of the inputs", found["freedom"]),
    ]
    return Section(headline, blocks, tone)


def _claim(answer: Mapping[str, Any]) -> Claim:
    standing = STANDINGS.get(answer["standing"], "unknown")
    return Claim(answer["question"], "", standing, answer["why"], word=answer["standing"])


def _errors(found: Mapping[str, Any]) -> Plot:
    applied = [one for one in found["tried"] if "error" in one]
    names = [one["attack"] for one in applied]
    limit = {"tolerance": found["tolerance"], **found["noise"]}
    series = [Series("error of the forgery", names, [one["error"] or None for one in applied], "points")]
    if any(one["residual"] for one in applied):
        series.append(Series("in float64", names, [one["residual"] or None for one in applied], "hollow"))
    if names:
        series.append(Series("tolerance", [names[0], names[-1]], [found["tolerance"] or None] * 2, "limit"))
    rows = [*found["tried"], *({"attack": f"honest noise: {name}", "error": value} for name, value in limit.items())]
    return Plot(
        "Errors of the attacks", "attack", "l2 error", series, table("attacks", rows),
        about=f"The tolerance is {found['origin']}.",
    )  # fmt: skip


def _pairs(examples: Sequence[Mapping[str, Any]]) -> list[Block]:
    if not examples:
        return []
    pairs = [
        Pair(f"position {one['position']}", *(_picture(one, one[side]) for side in ("original", "forged")))
        for one in examples
    ]
    return [Pairs("Original and forged examples", pairs, "The best valid forgery.")]


def _picture(example: Mapping[str, Any], content: str) -> Any:
    if example["dtype"] != "uint8":
        return None
    pixels = base64.b64encode(bytes.fromhex(content)).decode()
    return picture_of({"shape": example["shape"], "pixels": pixels})

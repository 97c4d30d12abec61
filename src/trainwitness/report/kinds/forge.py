"""Forgeries of recorded steps: their errors beside the updates, and what was put in place of what."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from trainwitness.report.blocks import Block, Pair, Pairs, Plot, Section, Series, Table, Words
from trainwitness.report.kinds.kind import tells
from trainwitness.report.pictures import picture_of
from trainwitness.report.read import Envelope


@tells("forge")
def tell(envelope: Envelope, _all: Sequence[Envelope]) -> Section:
    """The section of one run of `forge`."""
    found = envelope.result["forgeries"]
    worst, replaced = max(one["error"] for one in found), sum(len(one["replaced"]) for one in found)
    refused = [problem for one in found for problem in one["problems"]]
    headline = (
        f"{found[0]['attack']} replaced {replaced} examples in {len(found)} "
        f"{'step' if len(found) == 1 else 'steps'}; the largest error is {worst:.2e}"
    )
    words = Words(
        ["A forged batch claims other data for the same step. It passes where its error is below the threshold."]
        + [f"A verifier refuses it: {problem}" for problem in refused]
    )
    return Section(headline, [words, _plot(found), *pairs(envelope.result.get("examples", []))])


def _plot(found: Sequence[Mapping[str, Any]]) -> Plot:
    names = [f"step {one['step']}" for one in found]
    header = ["step", "attack", "replaced", "error", "update", *found[0]["cost"]]
    rows = [
        [one["step"], one["attack"], len(one["replaced"]), one["error"], one["update"], *one["cost"].values()]
        for one in found
    ]
    return Plot(
        "Errors of the forgeries", "forged step", "l2",
        [
            Series("error of the forgery", names, [one["error"] or None for one in found], "points"),
            Series("size of the honest update", names, [one["update"] or None for one in found], "hollow"),
        ],
        Table("forgeries", header, rows),
    )  # fmt: skip


def pairs(examples: Sequence[Mapping[str, Any]]) -> Iterator[Block]:
    """Examples of a forgery side by side, where the result has any."""
    if examples:
        yield Pairs("Original and forged examples", [_pair(one) for one in examples])


def _pair(example: Mapping[str, Any]) -> Pair:
    original, forged = example["original"], example["forged"]
    caption = f"step {example['step']}, position {example['position']}"
    words = tuple(f"{side.get('row', 'a new row')}, label {side.get('label')}" for side in (original, forged))
    return Pair(caption, picture_of(original), picture_of(forged), (words[0], words[1]))

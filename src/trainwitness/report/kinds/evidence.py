"""Commitments, proofs and attestations: what was fixed, and what was checked."""

from __future__ import annotations

from collections.abc import Sequence

from trainwitness.report.blocks import Facts, Section, Tone, Words
from trainwitness.report.kinds.any import blocks
from trainwitness.report.kinds.kind import tells
from trainwitness.report.read import Envelope

TONES: dict[str, Tone] = {"HOLDS": "good", "REFUSED": "bad"}


@tells("commit")
def commitment(envelope: Envelope, _all: Sequence[Envelope]) -> Section:
    """Which rows were fixed."""
    made = envelope.result
    data, second = made["data"], made["sorted"] or {}
    facts = {
        "data set": data["name"],
        "rows": data["rows"],
        "row": data["row_schema"],
        "data root (commits to every row)": data["root"],
        "sorted root (absence can be proved)": second.get("root"),
        "digest of the commitment": made["digest"],
    }
    return Section(
        f"{data['rows']} rows of {data['name']} are committed to",
        [
            Words(["Made before training, and shown before a nonce is given out, it fixes the data of a run."]),
            Facts("Commitment", {key: value for key, value in facts.items() if value is not None}),
        ],
    )


@tells("check-proof")
def proof(envelope: Envelope, _all: Sequence[Envelope]) -> Section:
    """Whether a proof about one row holds."""
    found = envelope.result
    unchecked = [f"Not checked: {name} was not given." for name in found["missing"]]
    answer = found["answer"]
    return Section(found["claim"], [Words([*found["problems"], *unchecked])], TONES.get(answer, "open"), answer)


@tells("check")
def attestation(envelope: Envelope, _all: Sequence[Envelope]) -> Section:
    """Whether an attestation is its signer's, and about the files at hand."""
    found = envelope.result
    facts = {
        "signer's key": found["key"],
        "compared": ", ".join(found["compared"]) or "nothing",
        "not compared": ", ".join(found["not_compared"]) or "nothing",
        "signed by then": found["signed_by_then"] or "no timestamp was given",
    }
    return Section(
        "the attestation is its signer's, and about these files" if found["good"] else "the attestation is refused",
        [Words(found["problems"]), Facts("Attestation", facts)],
        "good" if found["good"] else "bad",
        "HOLDS" if found["good"] else "REFUSED",
        list(blocks({"statement": found["statement"]})) if found["statement"] else [],
    )

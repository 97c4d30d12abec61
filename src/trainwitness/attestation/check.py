"""check: is an attestation signed by whom it should be, and is it about what lies here?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from trainwitness.attestation.dsse import PAYLOAD_TYPE, parse_envelope
from trainwitness.attestation.keys import PublicKey
from trainwitness.attestation.statements import (
    BUILD_TYPE,
    PROVENANCE,
    RESULT,
    TREE,
    Statement,
    file_digest,
    parse_statement,
)
from trainwitness.commitments.commitment import Commitment
from trainwitness.trace.reader import Trace


@dataclass(frozen=True)
class Checked:
    """What an attestation says (None if no signature is good), why it is refused, and what nobody compared."""

    statement: Statement | None
    problems: list[str]
    compared: list[str] = field(default_factory=list)
    open: list[str] = field(default_factory=list)

    @property
    def good(self) -> bool:
        return not self.problems


def check_attestation(
    content: bytes,
    name: str,
    key: PublicKey,
    *,
    trace: Trace | None = None,
    model: Path | None = None,
    commitment: Commitment | None = None,
    signed_at: datetime | None = None,
) -> Checked:
    """Checks the signature first, and reads the payload only then.

    `signed_at` is a moment, shown by a timestamp over the envelope, at which the signature was there already; without
    one, a key whose certificate has expired is refused.
    """
    envelope = parse_envelope(content, name)
    if not envelope.signed_by(key):
        return Checked(None, [f"no signature in it is by key {key.id[:16]} over this payload and type"])
    lapse = key.lapse(signed_at or datetime.now(UTC))
    if lapse is not None:
        return Checked(None, [lapse])
    if envelope.payloadType != PAYLOAD_TYPE:
        return Checked(None, [f"the payload's type is {envelope.payloadType!r}, not {PAYLOAD_TYPE!r}"])
    statement = parse_statement(envelope.content(), name)
    compared: list[str] = []
    problems: list[str] = []
    unknown: list[str] = []
    for what, here, stated in _facts(statement, trace, model, commitment):
        if here is None:
            unknown.append(what)
        elif stated is None:
            problems.append(f"the attestation says nothing of the {what}")
        elif here != stated:
            problems.append(f"the {what} here is {here}, the attestation is of {stated}")
        else:
            compared.append(what)
    if statement.predicateType not in (PROVENANCE, RESULT):
        problems.append(f"a statement of type {statement.predicateType!r}, which this version does not know")
    return Checked(statement, problems, compared, unknown)


Fact = tuple[str, str | None, str | None]


def _facts(
    statement: Statement, trace: Trace | None, model: Path | None, commitment: Commitment | None
) -> Iterator[Fact]:
    """Each thing with its digest here (None if it is not) and as the statement has it."""
    predicate = statement.predicate
    yield "model file", file_digest(model) if model else None, statement.subject[0].digest.get("sha256")
    root = None if trace is None else trace.check().step_root
    if statement.predicateType == RESULT:
        yield "trace", root, _text(predicate, "trainwitness", "stepRoot")
        return
    if _text(predicate, "buildDefinition", "buildType") != BUILD_TYPE:
        yield "training claim", "a training by trainwitness", str(_text(predicate, "buildDefinition", "buildType"))
        return
    yield "trace", root, _text(predicate, "runDetails", "byproducts", 0, "digest", TREE)
    data = ("buildDefinition", "resolvedDependencies", 0)
    here = None if trace is None else trace.manifest.data.root
    yield "data root", here, _text(predicate, *data, "digest", TREE)
    digest = None if commitment is None else commitment.digest
    yield "commitment", digest, _text(predicate, *data, "annotations", "commitment")


def _text(value: Any, *path: str | int) -> str | None:
    """A text inside JSON that may be shaped otherwise."""
    for key in path:
        try:
            value = value[key]
        except (KeyError, IndexError, TypeError):
            return None
    return value if isinstance(value, str) else None

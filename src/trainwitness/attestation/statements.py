"""in-toto Statements v1: the owner's training claim (SLSA provenance v1) and a verifier's result (SVR v0.1)."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from trainwitness.commitments.commitment import Commitment, bound_seed
from trainwitness.core.errors import EvidenceDamaged, TraceMismatch
from trainwitness.core.files import read_evidence
from trainwitness.core.records import parse
from trainwitness.core.verdict import Verdict
from trainwitness.core.version import version
from trainwitness.trace.reader import Trace
from trainwitness.verification.model_file import check_model

STATEMENT: Literal["https://in-toto.io/Statement/v1"] = "https://in-toto.io/Statement/v1"
PROVENANCE = "https://slsa.dev/provenance/v1"
RESULT = "https://in-toto.io/attestation/svr/v0.1"
BUILD_TYPE = "urn:trainwitness:training:1"
TREE = "rfc6962Sha256"
"""Digest algorithm of data roots and step roots: a tree head, not the hash of a file."""


class Subject(BaseModel):
    """What a statement is about."""

    model_config = ConfigDict(frozen=True, strict=True)

    name: str = ""
    digest: dict[str, str]


class Statement(BaseModel):
    """An in-toto Statement. Unknown members are ignored, as its parsing rules ask."""

    model_config = ConfigDict(frozen=True, strict=True)

    type: Literal["https://in-toto.io/Statement/v1"] = Field(alias="_type")
    subject: Annotated[list[Subject], Field(min_length=1, max_length=1024)]
    predicateType: str
    predicate: dict[str, Any]

    def to_bytes(self) -> bytes:
        """The payload that is signed."""
        return json.dumps(self.model_dump(by_alias=True), sort_keys=True, ensure_ascii=True, allow_nan=False).encode()


def parse_statement(content: bytes, name: str) -> Statement:
    """A Statement from its JSON."""
    return parse(Statement, content, name, EvidenceDamaged)


def file_digest(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise EvidenceDamaged(f"{path}: cannot be read: {error.strerror}") from error


def model_subject(trace: Trace, model: Path) -> Subject:
    """The model file, which must be the trace's final State."""
    final = trace.final_state()
    bound = check_model(model, final, final.part("param").keys())
    if bound.standing != "established":
        raise TraceMismatch(f"the model is not the trace's: {bound.why}", hint="attest the file that was trained")
    return Subject(name=model.name, digest={"sha256": file_digest(model)})


def training_claim(
    trace: Trace, model: Path, *, commitment: Commitment | None = None, nonce: str | None = None
) -> Statement:
    """The owner's claim: this model came out of this training on this data."""
    manifest = trace.manifest
    if trace.seal is None:
        raise TraceMismatch("the trace is unsealed", hint="finish the recording first: record --resume")
    checked = trace.check()
    notes: dict[str, Any] = {"rows": manifest.data.rows, "rowSchema": manifest.data.row_schema}
    if commitment is not None:
        _check_commitment(trace, commitment, nonce)
        notes["commitment"] = commitment.digest
    parameters = {"task": manifest.task.model_dump() if manifest.task else None, "seed": manifest.seed}
    predicate = {
        "buildDefinition": {
            "buildType": BUILD_TYPE,
            "externalParameters": parameters | {"steps": checked.steps} | ({"nonce": nonce} if nonce else {}),
            "internalParameters": {
                "model": manifest.model,
                "optimizer": manifest.optimizer,
                "order": manifest.order,
                "numerics": manifest.numerics.model_dump(),
            },
            "resolvedDependencies": [
                {"name": manifest.data.name, "digest": {TREE: manifest.data.root}, "annotations": notes}
            ],
        },
        "runDetails": {
            "builder": {
                "id": BUILD_TYPE,
                "version": {"trainwitness": manifest.environment.trainwitness, "torch": manifest.environment.torch},
            },
            "metadata": {"invocationId": trace.id},
            "byproducts": [{"name": "trace", "digest": {TREE: checked.step_root}}],
        },
    }
    return _statement(model_subject(trace, model), PROVENANCE, predicate)


def _check_commitment(trace: Trace, commitment: Commitment, nonce: str | None) -> None:
    manifest = trace.manifest
    if manifest.data.root != commitment.data.root:
        raise TraceMismatch(f"the trace has data root {manifest.data.root}, the commitment {commitment.data.root}")
    if nonce is not None and manifest.seed != bound_seed(commitment, nonce):
        raise TraceMismatch("the trace's seed does not come from the commitment and this nonce")


def verification_result(trace: Trace, model: Path, verdict: Verdict, verifier: str) -> Statement:
    """A verifier's result: the properties that were established, and no others."""
    if verdict.step_root is None or trace.seal is None or verdict.step_root != trace.seal.step_root:
        raise TraceMismatch("the verdict is not of this trace as a whole", hint="verify the whole trace with --json")
    names = [name for name, found in verdict.properties.items() if found.standing == "established"]
    grades = [f"data_committed_{grade}" for grade in verdict.properties["data_committed"].grades]
    accepted = ["accept"] if verdict.verdict == "ACCEPT" else []
    predicate = {
        "verifier": {"id": verifier},
        "timeCreated": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "properties": [f"TRAINWITNESS_{name.upper()}" for name in [*accepted, *names, *grades]],
        "trainwitness": {
            "version": version(),
            "verdict": verdict.verdict,
            "stepRoot": verdict.step_root,
            "threshold": None if verdict.threshold is None else verdict.threshold.value,
            "recomputedOn": verdict.recomputed_on,
            "sample": verdict.sample,
            "reasons": verdict.reasons,
        },
    }
    return _statement(model_subject(trace, model), RESULT, predicate)


def read_verdict(path: Path) -> Verdict:
    """The verdict in the file that `verify --json` wrote."""
    try:
        result = json.loads(read_evidence(path))["result"]
        return Verdict.model_validate({key: value for key, value in result.items() if key in Verdict.model_fields})
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise EvidenceDamaged(
            f"{path}: not a verdict", hint="write one: trainwitness verify TRACE --json FILE"
        ) from error


def _statement(subject: Subject, kind: str, predicate: dict[str, Any]) -> Statement:
    return Statement(_type=STATEMENT, subject=[subject], predicateType=kind, predicate=predicate)

"""`trainwitness attest` and `check`: sign a claim or a verdict; check what someone signed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trainwitness.cli.extras import extra
from trainwitness.cli.output import JsonOption, Output

if TYPE_CHECKING:
    from datetime import datetime

    from trainwitness.attestation.check import Checked


def attest(
    trace: Annotated[Path, typer.Argument(help="A sealed trace.")],
    model: Annotated[Path, typer.Option(metavar="FILE", help="The model file; it must be the final State.")],
    key: Annotated[Path, typer.Option(metavar="FILE", help="Your private key (trainwitness key).")],
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="The attestation to write.")],
    commitment: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The commitment to the training data.")
    ] = None,
    nonce: Annotated[str | None, typer.Option(help="The nonce that seeded the training.")] = None,
    verdict: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Sign this verdict (verify --json FILE) instead of a claim.")
    ] = None,
    verifier: Annotated[str, typer.Option(metavar="URI", help="Who verified.")] = "urn:trainwitness:verifier",
    json: JsonOption = None,
) -> int:
    """Sign the claim that a model came out of a recorded training, or the verdict on it, for others to check.

    The claim is an in-toto statement with SLSA provenance, the verdict one with a simple verification result, both
    in a DSSE envelope.

    Example: trainwitness attest run.trace --model model.safetensors --key owner.key --out claim.json
    """
    with extra("attest"):
        from trainwitness.attestation.dsse import seal
        from trainwitness.attestation.keys import load_private
    from trainwitness.attestation.statements import read_verdict, training_claim, verification_result
    from trainwitness.commitments.commitment import read_commitment
    from trainwitness.core.errors import UsageError
    from trainwitness.core.files import refuse_existing, write_new
    from trainwitness.trace.reader import Trace

    output = Output(json)
    refuse_existing(out)
    private, opened = load_private(key), Trace.open(trace)
    if verdict is not None and (commitment is not None or nonce is not None):
        raise UsageError("a verdict says itself which commitment it rests on", hint="leave out --commitment")
    if nonce is not None and commitment is None:
        raise UsageError("a nonce without a commitment", hint="give --commitment FILE too")
    with output.status() as say:
        say("reading the trace")
        if verdict is not None:
            statement = verification_result(opened, model, read_verdict(verdict), verifier)
        else:
            given = None if commitment is None else read_commitment(commitment)
            statement = training_claim(opened, model, commitment=given, nonce=nonce)
    envelope = seal(statement.to_bytes(), private)
    write_new(out, envelope.model_dump_json(indent=2).encode() + b"\n", "attesting")
    output.say(f"attestation: {out}, {statement.predicateType}, signed by key {envelope.signatures[0].keyid}")
    output.result("attest", {"out": str(out), "statement": statement.model_dump(by_alias=True)})
    return 0


def check(
    attestation: Annotated[Path, typer.Argument(metavar="ATTESTATION", help="A file written by attest.")],
    key: Annotated[
        Path, typer.Option(metavar="FILE", help="The signer's public key or certificate, from a way you trust.")
    ],
    trace: Annotated[Path | None, typer.Option(metavar="TRACE", help="Compare with this trace.")] = None,
    model: Annotated[Path | None, typer.Option(metavar="FILE", help="Compare with this model file.")] = None,
    commitment: Annotated[Path | None, typer.Option(metavar="FILE", help="Compare with this commitment.")] = None,
    timestamp: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A timestamp over the attestation (trainwitness timestamp).")
    ] = None,
    tsa_certificate: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Certificates of the authorities you trust.")
    ] = None,
    json: JsonOption = None,
) -> int:
    """Check who signed an attestation and whether it is about the files here. Exit code 0 it is, 1 it is refused.

    A claim is its owner's word, however well signed: `verify` shows whether it is true.

    Example: trainwitness check claim.json --key owner.key.pub --trace run.trace --model model.safetensors
    """
    with extra("attest"):
        from trainwitness.attestation.check import check_attestation
        from trainwitness.attestation.keys import load_public
    from trainwitness.commitments.commitment import read_commitment
    from trainwitness.core.files import read_evidence
    from trainwitness.trace.reader import Trace

    output = Output(json)
    content, public = read_evidence(attestation), load_public(key)
    moment = _moment(timestamp, tsa_certificate, content)
    with output.status() as say:
        say("reading and comparing")
        checked = check_attestation(
            content,
            str(attestation),
            public,
            trace=None if trace is None else Trace.open(trace),
            model=model,
            commitment=None if commitment is None else read_commitment(commitment),
            signed_at=moment,
        )
    _say(output, checked, public.id, moment)
    statement = None if checked.statement is None else checked.statement.model_dump(by_alias=True)
    output.result(
        "check",
        {
            "good": checked.good, "key": public.id, "statement": statement, "problems": checked.problems,
            "compared": checked.compared, "not_compared": checked.open,
            "signed_by_then": None if moment is None else moment.isoformat(),
        },
    )  # fmt: skip
    return 0 if checked.good else 1


def _moment(token: Path | None, authority: Path | None, content: bytes) -> datetime | None:
    from trainwitness.core.errors import EvidenceDamaged, UsageError
    from trainwitness.core.files import read_evidence

    if (token is None) != (authority is None):
        raise UsageError("a timestamp and its authority go together", hint="give --timestamp and --tsa-certificate")
    if token is None or authority is None:
        return None
    with extra("attest"):
        from trainwitness.attestation.timestamps import TimestampRefused, check_timestamp, load_roots
    try:
        return check_timestamp(read_evidence(token), content, load_roots(authority), str(token))
    except TimestampRefused as error:
        raise EvidenceDamaged(f"the timestamp does not hold: {error}") from error


def _say(output: Output, checked: Checked, key_id: str, moment: datetime | None) -> None:
    output.say("SIGNED" if checked.good else "REFUSED")
    for problem in checked.problems:
        output.say(f"  {problem}")
    if checked.statement is None:
        return
    output.say(f"{checked.statement.predicateType}, by key {key_id}")
    if moment is not None:
        output.say(f"signed on or before {moment:%Y-%m-%d %H:%M:%S} UTC")
    said = checked.statement.predicate.get("properties")
    if isinstance(said, list):
        output.say(f"says: {', '.join(map(str, said)) or 'nothing is established'}")
    if checked.compared:
        output.say(f"the same here: {', '.join(checked.compared)}")
    if checked.open:
        output.say(f"not compared: {', '.join(checked.open)}")

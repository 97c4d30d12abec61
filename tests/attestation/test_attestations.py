"""Attestations: others' tools read them, and every change is refused."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.attestation.authority import Authority
from tests.attestation.conftest import Owner
from tests.attestation.test_keys import certificate
from tests.commitments.test_commitment import NONCE
from trainwitness import Trace, record, verify
from trainwitness.attestation.check import check_attestation
from trainwitness.attestation.dsse import Envelope, encoded, seal
from trainwitness.attestation.keys import load_private, load_public, make_key
from trainwitness.attestation.statements import PROVENANCE, RESULT, TREE, training_claim, verification_result
from trainwitness.attestation.timestamps import check_timestamp, load_roots
from trainwitness.commitments.commitment import Commitment, Committed
from trainwitness.core.errors import EvidenceDamaged, TraceMismatch
from trainwitness.tasks.registry import build_task

KINDS = ("ed25519", "ecdsa")


def claim_of(owner: Owner, kind: str = "ed25519") -> bytes:
    statement = training_claim(Trace.open(owner.trace), owner.model, commitment=owner.commitment, nonce=NONCE)
    return seal(statement.to_bytes(), load_private(owner.keys[kind])).model_dump_json().encode()


def result_of(owner: Owner, **changes: Any) -> bytes:
    verdict = verify(owner.trace, model=owner.model, commitment=Committed(owner.commitment, nonce=NONCE))
    assert verdict.verdict == "ACCEPT"
    verdict = verdict.model_copy(update=changes)
    statement = verification_result(Trace.open(owner.trace), owner.model, verdict, "urn:example:auditor")
    return seal(statement.to_bytes(), load_private(owner.keys["ed25519"])).model_dump_json().encode()


def public(owner: Owner, kind: str = "ed25519") -> Any:
    return load_public(Path(f"{owner.keys[kind]}.pub"))


@pytest.mark.parametrize("kind", KINDS)
def test_a_claim_is_about_just_these_files(owner: Owner, kind: str) -> None:
    everything: dict[str, Any] = {"model": owner.model, "commitment": owner.commitment}
    checked = check_attestation(
        claim_of(owner, kind), "c", public(owner, kind), trace=Trace.open(owner.trace), **everything
    )
    assert checked.good
    assert checked.compared == ["model file", "trace", "data root", "commitment"]
    bare = check_attestation(claim_of(owner, kind), "c", public(owner, kind))
    assert bare.good
    assert bare.open == ["model file", "trace", "data root", "commitment"]


def test_the_claim_says_what_the_standards_ask(owner: Owner) -> None:
    statement = json.loads(Envelope.model_validate_json(claim_of(owner)).content())
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    assert statement["predicateType"] == PROVENANCE == "https://slsa.dev/provenance/v1"
    assert [one["name"] for one in statement["subject"]] == ["model.safetensors"]
    definition, run = statement["predicate"]["buildDefinition"], statement["predicate"]["runDetails"]
    assert definition["resolvedDependencies"][0]["digest"] == {TREE: owner.commitment.data.root}
    assert definition["resolvedDependencies"][0]["annotations"]["commitment"] == owner.commitment.digest
    assert definition["externalParameters"]["nonce"] == NONCE
    assert run["byproducts"][0]["digest"] == {TREE: Trace.open(owner.trace).check().step_root}


def test_in_toto_s_own_classes_read_both_statements(owner: Owner) -> None:
    from google.protobuf import json_format
    from in_toto_attestation.predicates.provenance.v1.provenance_pb2 import Provenance
    from in_toto_attestation.v1.statement import Statement
    from in_toto_attestation.v1.statement_pb2 import Statement as StatementMessage

    for content, kind in ((claim_of(owner), PROVENANCE), (result_of(owner), RESULT)):
        text = Envelope.model_validate_json(content).content()
        message = json_format.Parse(text, StatementMessage())
        Statement.copy_from_pb(message).validate()
        assert message.predicate_type == kind
        if kind == PROVENANCE:
            predicate = json_format.Parse(json.dumps(json.loads(text)["predicate"]), Provenance())
            assert predicate.build_definition.resolved_dependencies[0].name == "digits"


@pytest.mark.parametrize("kind", KINDS)
def test_securesystemslib_checks_our_envelopes_and_we_check_its(owner: Owner, kind: str) -> None:
    from securesystemslib.dsse import Envelope as TheirEnvelope
    from securesystemslib.exceptions import VerificationError
    from securesystemslib.signer import CryptoSigner, SSlibKey

    ours, key = claim_of(owner, kind), public(owner, kind)
    theirs = SSlibKey.from_crypto(key.key, keyid=key.id)
    envelope = TheirEnvelope.from_dict(json.loads(ours))
    assert list(envelope.verify([theirs], 1)) == [key.id]
    assert envelope.pae() == encoded("application/vnd.in-toto+json", envelope.payload)
    envelope.payload += b" "
    with pytest.raises(VerificationError):
        envelope.verify([theirs], 1)
    signed = TheirEnvelope(Envelope.model_validate_json(ours).content(), "application/vnd.in-toto+json", {})
    signed.sign(CryptoSigner(load_private(owner.keys[kind])))
    assert check_attestation(json.dumps(signed.to_dict()).encode(), "t", key, model=owner.model).good


def test_model_signing_signs_and_checks_the_model_we_name(owner: Owner, tmp_path: Path) -> None:
    """With the same key file, over the same SHA-256 that our claim's subject has."""
    from model_signing import signing, verifying

    signature = tmp_path / "model.sig"
    signing.Config().use_elliptic_key_signer(private_key=owner.keys["ecdsa"]).sign(owner.model, signature)
    checker = verifying.Config().use_elliptic_key_verifier(public_key=Path(f"{owner.keys['ecdsa']}.pub"))
    checker.verify(owner.model, signature)
    ours = json.loads(Envelope.model_validate_json(claim_of(owner)).content())["subject"][0]["digest"]["sha256"]
    bundle = json.loads(signature.read_text())["dsseEnvelope"]
    assert ours in base64.b64decode(bundle["payload"]).decode()
    other = tmp_path / "other" / owner.model.name
    other.parent.mkdir()
    other.write_bytes(owner.model.read_bytes()[:-1] + b"\x01")
    with pytest.raises(ValueError, match="mismatch"):
        checker.verify(other, signature)


def test_a_verdict_states_only_what_was_established(owner: Owner) -> None:
    checked = check_attestation(
        result_of(owner), "r", public(owner), trace=Trace.open(owner.trace), model=owner.model
    )
    assert checked.good
    assert checked.statement is not None
    said = checked.statement.predicate
    assert said["verifier"] == {"id": "urn:example:auditor"}
    assert datetime.fromisoformat(said["timeCreated"]) <= datetime.now(UTC)
    assert set(said["properties"]) == {
        f"TRAINWITNESS_{name}"
        for name in ("ACCEPT", "REPRODUCED", "EXACT", "INITIALISED", "SCHEDULED", "DATA_MATCHES", "DATA_COMMITTED",
                     "MODEL_BOUND", "DATA_COMMITTED_COMMITTED", "DATA_COMMITTED_BEFORE_NONCE")
    }  # fmt: skip
    rejected = json.loads(Envelope.model_validate_json(result_of(owner, verdict="REJECT")).content())
    assert "TRAINWITNESS_ACCEPT" not in rejected["predicate"]["properties"]


def test_what_would_be_untrue_is_not_signed(owner: Owner, tmp_path: Path) -> None:
    trace = Trace.open(owner.trace)
    record(build_task("softmax-digits"), tmp_path / "other", steps=3)
    other = Trace.open(tmp_path / "other")
    with pytest.raises(TraceMismatch, match="the model is not the trace's"):
        training_claim(other, owner.model)
    with pytest.raises(TraceMismatch, match="seed"):
        training_claim(trace, owner.model, commitment=owner.commitment, nonce=NONCE[::-1])
    data = owner.commitment.data.model_copy(update={"root": "0" * 64})
    with pytest.raises(TraceMismatch, match="data root"):
        training_claim(trace, owner.model, commitment=Commitment(data=data))
    with pytest.raises(TraceMismatch, match="not of this trace"):
        verification_result(trace, owner.model, verify(other), "urn:x")
    with pytest.raises(TraceMismatch, match="not of this trace"):
        verification_result(trace, owner.model, verify(trace, steps=(0, 3)), "urn:x")


def test_other_files_than_the_attested_ones_are_refused(owner: Owner, tmp_path: Path) -> None:
    (tmp_path / "m").write_bytes(owner.model.read_bytes() + b"\x00")
    record(build_task("softmax-digits"), tmp_path / "t", steps=3)
    data = owner.commitment.data.model_copy(update={"name": "other"})
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"model": tmp_path / "m"}, "the model file here"),
        ({"trace": Trace.open(tmp_path / "t")}, "the trace here"),
        ({"commitment": Commitment(data=data)}, "the commitment here"),
    ]
    for given_files, problem in wrong:
        checked = check_attestation(claim_of(owner), "c", public(owner), **given_files)
        assert not checked.good
        assert problem in checked.problems[0]


def test_another_key_another_type_and_unsigned_payloads_are_refused(owner: Owner, tmp_path: Path) -> None:
    make_key(tmp_path / "k", "ed25519")
    stranger = check_attestation(claim_of(owner), "c", load_public(tmp_path / "k.pub"))
    assert stranger.statement is None
    assert "no signature in it is by key" in stranger.problems[0]
    content = json.loads(claim_of(owner))
    retyped = check_attestation(json.dumps({**content, "payloadType": "text/plain"}).encode(), "c", public(owner))
    assert "no signature" in retyped.problems[0]
    honest_type = seal(base64.b64decode(content["payload"]), load_private(owner.keys["ed25519"]), "text/plain")
    typed = check_attestation(honest_type.model_dump_json().encode(), "c", public(owner))
    assert "the payload's type is 'text/plain'" in typed.problems[0]
    claimed = {**content, "signatures": [{"keyid": public(owner).id, "sig": "AAAA"}]}
    assert not check_attestation(json.dumps(claimed).encode(), "c", public(owner)).good


def test_an_expired_key_is_refused_unless_a_timestamp_shows_the_signature_is_older(
    owner: Owner, authority: Authority, tmp_path: Path
) -> None:
    private, now = load_private(owner.keys["ed25519"]), datetime.now(UTC)
    (tmp_path / "past.pem").write_bytes(certificate(private, now - timedelta(days=9), now - timedelta(days=1)))
    (tmp_path / "now.pem").write_bytes(certificate(private, now - timedelta(days=9), now + timedelta(days=1)))
    past, valid = load_public(tmp_path / "past.pem"), load_public(tmp_path / "now.pem")
    content = claim_of(owner)
    refused = check_attestation(content, "c", past)
    assert refused.statement is None
    assert "the key expired on" in refused.problems[0]
    (tmp_path / "claim").write_bytes(content)
    token = authority.stamp(tmp_path / "claim")
    moment = check_timestamp(token, content, load_roots(authority.root), "t")
    assert check_attestation(content, "c", valid, signed_at=moment).good
    assert not check_attestation(content, "c", past, signed_at=moment).good  # stamped only now, after it expired
    assert check_attestation(content, "c", past, signed_at=now - timedelta(days=2)).good


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_byte_of_the_signed_part_can_be_changed(owner: Owner, data: st.DataObject) -> None:
    content = json.loads(claim_of(owner))
    payload = bytearray(base64.b64decode(content["payload"]))
    at = data.draw(st.integers(0, len(payload) - 1))
    payload[at] ^= data.draw(st.integers(1, 255))
    changed = {**content, "payload": base64.b64encode(bytes(payload)).decode()}
    assert not check_attestation(json.dumps(changed).encode(), "c", public(owner)).good


@pytest.mark.parametrize(
    "content",
    [b"", b"{}", b"[]", b"\xff", b'{"payload":"*","payloadType":"a","signatures":[{"sig":""}]}',
     b'{"payload":"AA==","payloadType":"a","signatures":[]}', b'{"payload":1,"payload":2}', b"[" * 100_000],
)  # fmt: skip
def test_what_is_no_envelope_is_refused(owner: Owner, content: bytes) -> None:
    with pytest.raises(EvidenceDamaged):
        check_attestation(content, "c", public(owner))


def test_a_signed_payload_that_is_no_statement_is_refused(owner: Owner) -> None:
    for payload in (b"", b"{}", b'{"_type":"https://in-toto.io/Statement/v0.1"}', b"null"):
        envelope = seal(payload, load_private(owner.keys["ed25519"])).model_dump_json().encode()
        with pytest.raises(EvidenceDamaged):
            check_attestation(envelope, "c", public(owner))

"""Honest evidence of every kind, for fuzzers to start from."""

from __future__ import annotations

import base64
import json
from pathlib import Path

from tests.attestation.authority import Authority
from tests.conftest import tiny_task
from trainwitness.attestation.dsse import PAYLOAD_TYPE, seal
from trainwitness.commitments.commitment import Commitment, commit
from trainwitness.commitments.proofs import prove_absent, prove_member
from trainwitness.commitments.sources import rows_of


def seeds(folder: Path) -> dict[str, list[bytes]]:
    """Contents by the name of their parser; `folder` is where an authority for one timestamp is made."""
    from cryptography.hazmat.primitives.asymmetric import ed25519

    from tests.fuzz.parsers import PUBLIC
    from trainwitness.attestation.statements import PROVENANCE, STATEMENT

    rows = rows_of(tiny_task().dataset)
    plain, keyed = commit(rows), commit(rows, key=bytes(32))
    statement = {
        "_type": STATEMENT, "subject": [{"name": "m", "digest": {"sha256": "0" * 64}}], "predicateType": PROVENANCE,
        "predicate": {"buildDefinition": {"buildType": "x", "resolvedDependencies": [{"digest": {}}]}},
    }  # fmt: skip
    payload = json.dumps(statement).encode()
    envelope = seal(payload, ed25519.Ed25519PrivateKey.from_private_bytes(bytes([1] * 32)))
    bare = {"payload": base64.b64encode(payload).decode(), "payloadType": PAYLOAD_TYPE, "signatures": [{"sig": ""}]}
    (folder / "message").write_bytes(b"message")
    token = Authority(folder / "tsa").stamp(folder / "message")
    proofs = [prove_member(keyed, rows, 3), prove_absent(keyed, rows, bytes(32), b"row")]
    return {
        "commitment": [_json(plain), _json(keyed)],
        "proof": [proof.model_dump_json().encode() for proof in proofs],
        "envelope": [envelope.model_dump_json().encode(), json.dumps(bare).encode()],
        "statement": [payload],
        "public key": [PUBLIC, (folder / "tsa" / "ca.pem").read_bytes()],
        "timestamp": [token],
        "records": [],
    }


def _json(made: Commitment) -> bytes:
    return made.model_dump_json().encode()

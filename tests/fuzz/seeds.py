"""Honest evidence of every kind, for fuzzers to start from."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save

from tests.attestation.authority import Authority
from tests.conftest import tiny_task
from trainwitness import Numerics, calibrate, pack, record
from trainwitness.attestation.dsse import PAYLOAD_TYPE, seal
from trainwitness.commitments.commitment import Commitment, commit
from trainwitness.commitments.proofs import prove_absent, prove_member
from trainwitness.commitments.sources import rows_of
from trainwitness.core.canonical import row_bytes
from trainwitness.core.result import SCHEMA
from trainwitness.trace.chunk import DIGEST_BYTES
from trainwitness.trace.format import chunk_name


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
        **_of_traces(folder),
    }


def _of_traces(folder: Path) -> dict[str, list[bytes]]:
    task = tiny_task()
    traces = {precision: folder / f"{precision}.trace" for precision in ("float32", "exact")}
    for precision, path in traces.items():
        record(task, path, steps=2, numerics=Numerics(precision=precision))
    packed = folder / "packed.zip"
    pack(traces["float32"], packed)
    chunks = {kind: (path / chunk_name(0)).read_bytes()[:-DIGEST_BYTES] for kind, path in traces.items()}
    calibration = calibrate(task, steps=2, repeats=2)
    envelope = {"schema": SCHEMA, "kind": "calibrate", "command": [], "environment": {}, "result": {}}
    whole = envelope | {"result": calibration.model_dump(mode="json")}
    return {
        "chunk": [chunks["float32"]],
        "exact chunk": [chunks["exact"]],
        "row": [row_bytes((np.zeros(3, np.uint8), np.array(7)))],
        "packed trace": [packed.read_bytes()],
        "calibration": [json.dumps(whole).encode()],
        "result": [json.dumps(envelope).encode()],
        "model": [save({"weight": torch.zeros(2, 2)})],
    }


def _json(made: Commitment) -> bytes:
    return made.model_dump_json().encode()

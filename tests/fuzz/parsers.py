"""Every parser of evidence, as functions that take any bytes: refusing them is right, any other error is a bug."""

from __future__ import annotations

import hashlib
import io
import tempfile
from collections.abc import Callable
from pathlib import Path

from trainwitness.attestation.der import with_sorted_certificates
from trainwitness.attestation.dsse import parse_envelope
from trainwitness.attestation.keys import parse_public
from trainwitness.attestation.statements import parse_statement
from trainwitness.attestation.timestamps import TimestampRefused, check_timestamp
from trainwitness.commitments.commitment import bound_seed, commit, parse_commitment
from trainwitness.commitments.proofs import AbsentProof, absent_problems, member_problems, parse_proof
from trainwitness.commitments.sources import rows_of
from trainwitness.core.canonical import RowReader
from trainwitness.core.errors import EvidenceDamaged, ResultDamaged, StorageError, TraceDamaged
from trainwitness.core.records import load
from trainwitness.report.read import read_envelope
from trainwitness.trace import format as f
from trainwitness.trace.chunk import ChunkReader, ExactChunkReader
from trainwitness.trace.reader import Trace
from trainwitness.trace.segments import decoded
from trainwitness.verification.calibration import load_calibration
from trainwitness.verification.model_file import read_model

REFUSALS = (EvidenceDamaged, ResultDamaged, TraceDamaged, TimestampRefused)
ROW = (("uint8", (3,)), ("int64", ()))
_NONCE = "0123456789abcdef"


def _with_digest(body: bytes) -> bytes:
    """A body as a file that ends in its digest, so that the fuzzer gets past it."""
    body = body.removesuffix(b"}")
    return body + f',"sha256":"{hashlib.sha256(body).hexdigest()}"}}\n'.encode()


def _commitment(content: bytes) -> None:
    for form in (content, _with_digest(content)):
        bound_seed(parse_commitment(form, "c"), _NONCE)


def _proof(content: bytes) -> None:
    from tests.conftest import tiny_task

    proof = parse_proof(_with_digest(content), "p")
    made = commit(rows_of(tiny_task().dataset), key=bytes(32))
    if isinstance(proof, AbsentProof):
        absent_problems(proof, made, b"row", bytes(32))
    else:
        member_problems(proof, made, b"row")


def _envelope(content: bytes) -> None:
    from trainwitness.attestation.keys import PublicKey

    envelope = parse_envelope(content, "e")
    key: PublicKey = parse_public(PUBLIC, Path("k"))
    assert not envelope.signed_by(key)
    parse_statement(envelope.content(), "e")


def _statement(content: bytes) -> None:
    from trainwitness.attestation.check import _facts

    list(_facts(parse_statement(content, "s"), None, None, None))


def _public_key(content: bytes) -> None:
    assert not parse_public(content, Path("k")).signed(b"signature", b"message")


def _timestamp(content: bytes) -> None:
    assert len(with_sorted_certificates(content)) == len(content)
    check_timestamp(content, b"message", ROOTS, "t")


def _records(content: bytes) -> None:
    for kind in (f.Manifest, f.Seal, f.Session, f.ChunkHeader):
        try:
            load(kind, _with_digest(content), "r")
        except TraceDamaged:
            continue


def _chunk(content: bytes) -> None:
    whole = content + hashlib.sha256(content).digest()
    for segment in decoded(ChunkReader(io.BytesIO(whole), "c"), None):
        list(segment.batches)


def _exact_chunk(content: bytes) -> None:
    chunk = ExactChunkReader(io.BytesIO(content + hashlib.sha256(content).digest()), "c")
    chunk.keyframe(), chunk.leaves(), chunk.batches()


def _row(content: bytes) -> None:
    try:
        inputs, label = RowReader(ROW).read(content)
    except ValueError as error:  # what the callers expect and turn into a refusal
        raise TraceDamaged(str(error)) from error
    assert [inputs.shape, label.shape] == [(3,), ()]


def _from_file(read: Callable[[Path], object]) -> Callable[[bytes], None]:
    """A parser that opens its file itself."""

    def parse(content: bytes) -> None:
        with tempfile.NamedTemporaryFile() as file:
            file.write(content)
            file.flush()
            try:
                read(Path(file.name))
            except StorageError as error:  # a file of another kind
                raise ResultDamaged(str(error)) from error

    return parse


PARSERS: dict[str, Callable[[bytes], None]] = {
    "commitment": _commitment,
    "proof": _proof,
    "envelope": _envelope,
    "statement": _statement,
    "public key": _public_key,
    "timestamp": _timestamp,
    "records": _records,
    "chunk": _chunk,
    "exact chunk": _exact_chunk,
    "row": _row,
    "packed trace": _from_file(lambda path: Trace.open(path).check()),
    "calibration": _from_file(load_calibration),
    "result": _from_file(read_envelope),
    "model": _from_file(read_model),
}


def try_parser(parse: Callable[[bytes], None], content: bytes) -> bool:
    """Whether the bytes were read; refused is fine too."""
    try:
        parse(content)
    except REFUSALS:
        return False
    return True


def _fixtures() -> tuple[bytes, list[object]]:
    from datetime import UTC, datetime

    from cryptography import x509
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ed25519

    key = ed25519.Ed25519PrivateKey.from_private_bytes(bytes(32))
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "root")])
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    begin, end = datetime(2020, 1, 1, tzinfo=UTC), datetime(2040, 1, 1, tzinfo=UTC)
    root = builder.serial_number(1).not_valid_before(begin).not_valid_after(end).sign(key, None)
    pem = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    return pem, [root]


PUBLIC, ROOTS = _fixtures()

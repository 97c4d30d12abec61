"""Keys: who may read them, what is refused and how clearly."""

from __future__ import annotations

import base64
import os
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import NameOID

from trainwitness.attestation.keys import load_private, load_public, make_key, sign
from trainwitness.core.errors import EvidenceDamaged, StorageError


def certificate(key: ed25519.Ed25519PrivateKey | ec.EllipticCurvePrivateKey, begin: datetime, end: datetime) -> bytes:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "owner")])
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(1).not_valid_before(begin).not_valid_after(end)
    signed = builder.sign(key, None if isinstance(key, ed25519.Ed25519PrivateKey) else hashes.SHA256())
    return signed.public_bytes(serialization.Encoding.PEM)


@pytest.mark.parametrize("kind", ["ed25519", "ecdsa"])
def test_a_key_signs_and_its_public_half_checks(tmp_path: Path, kind: str) -> None:
    old = os.umask(0)  # even where files are open to all by default
    try:
        made = make_key(tmp_path / "k", kind)  # type: ignore[arg-type]
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "k").stat().st_mode) == 0o600
    private, public = load_private(tmp_path / "k"), load_public(tmp_path / "k.pub")
    assert public.id == made.id
    signature = sign(private, b"message")
    assert public.signed(signature, b"message")
    assert not public.signed(signature, b"massage")
    assert not public.signed(signature[:-1] + b"\x00", b"message")
    assert not public.signed(b"", b"message")
    with pytest.raises(StorageError, match="is there already"):
        make_key(tmp_path / "k", kind)  # type: ignore[arg-type]
    assert load_private(tmp_path / "k")


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o620, 0o602])
def test_a_key_that_others_can_read_or_change_is_refused(tmp_path: Path, mode: int) -> None:
    make_key(tmp_path / "k", "ed25519")
    (tmp_path / "k").chmod(mode)
    with pytest.raises(EvidenceDamaged, match=f"mode {mode:o}") as caught:
        load_private(tmp_path / "k")
    assert "chmod 600" in (caught.value.hint or "")


def test_a_key_file_killed_half_way_is_no_key(tmp_path: Path) -> None:
    (tmp_path / "k.tmp").write_text("left behind")
    make_key(tmp_path / "k", "ed25519")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["k", "k.pub"]


def test_what_is_no_key_is_refused_with_the_reason(tmp_path: Path) -> None:
    def write(name: str, content: bytes) -> Path:
        (tmp_path / name).write_bytes(content)
        (tmp_path / name).chmod(0o600)
        return tmp_path / name

    make_key(tmp_path / "k", "ecdsa")
    pem, pkcs8 = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    big = rsa.generate_private_key(65537, 2048)
    locked = big.private_bytes(pem, pkcs8, serialization.BestAvailableEncryption(b"x"))
    odd = ec.generate_private_key(ec.SECP256K1())
    with pytest.raises(EvidenceDamaged, match="is encrypted"):
        load_private(write("locked", locked))
    for name, key in (("rsa", big), ("odd", odd)):
        with pytest.raises(EvidenceDamaged, match="neither Ed25519 nor ECDSA"):
            load_private(write(name, key.private_bytes(pem, pkcs8, serialization.NoEncryption())))
        shown = key.public_key().public_bytes(pem, serialization.PublicFormat.SubjectPublicKeyInfo)
        with pytest.raises(EvidenceDamaged, match="neither Ed25519 nor ECDSA"):
            load_public(write(name + ".pub", shown))
    with pytest.raises(EvidenceDamaged, match="not a private key") as caught:
        load_private(write("public", (tmp_path / "k.pub").read_bytes()))
    assert caught.value.hint == "this is a public key"
    for content in (b"", b"-----BEGIN CERTIFICATE-----\n", b"\x00" * 100):
        with pytest.raises(EvidenceDamaged, match="neither a public key nor a certificate"):
            load_public(write("nonsense", content))
    with pytest.raises(EvidenceDamaged, match="No such file"):
        load_private(tmp_path / "missing")
    with pytest.raises(EvidenceDamaged, match="Is a directory"):
        load_public(tmp_path)


def test_a_certificate_of_a_version_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    """Found by fuzzing: the library's error for it is of a kind of its own."""
    make_key(tmp_path / "k", "ed25519")
    begin = datetime(2020, 1, 1, tzinfo=UTC)
    pem = certificate(load_private(tmp_path / "k"), begin, begin + timedelta(days=1))
    der = bytearray(x509.load_pem_x509_certificate(pem).public_bytes(serialization.Encoding.DER))
    der[der.index(b"\xa0\x03\x02\x01\x02") + 4] = 10
    text = base64.encodebytes(bytes(der)).decode()
    (tmp_path / "c.pem").write_text(f"-----BEGIN CERTIFICATE-----\n{text}-----END CERTIFICATE-----\n")
    with pytest.raises(EvidenceDamaged, match="nor a certificate"):
        load_public(tmp_path / "c.pem")


def test_a_certificate_says_when_its_key_counts(tmp_path: Path) -> None:
    make_key(tmp_path / "k", "ed25519")
    begin, end = datetime(2020, 1, 1, tzinfo=UTC), datetime(2021, 1, 1, tzinfo=UTC)
    (tmp_path / "c.pem").write_bytes(certificate(load_private(tmp_path / "k"), begin, end))
    public = load_public(tmp_path / "c.pem")
    assert public.id == load_public(tmp_path / "k.pub").id
    assert public.lapse(begin + timedelta(days=3)) is None
    assert "expired on 2021-01-01" in (public.lapse(end + timedelta(days=1)) or "")
    assert "valid only from" in (public.lapse(begin - timedelta(days=1)) or "")
    assert load_public(tmp_path / "k.pub").lapse(begin) is None

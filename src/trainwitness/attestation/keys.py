"""Keys: Ed25519 or ECDSA in PEM files; a certificate says until when one counts."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives import serialization as encoding
from cryptography.hazmat.primitives.asymmetric import ec, ed25519

from trainwitness.core.errors import EvidenceDamaged
from trainwitness.core.files import read_evidence, read_private, refuse_existing, write_new

Kind = Literal["ed25519", "ecdsa"]
Private = ed25519.Ed25519PrivateKey | ec.EllipticCurvePrivateKey
_HASHES: dict[str, hashes.HashAlgorithm] = {
    "secp256r1": hashes.SHA256(),
    "secp384r1": hashes.SHA384(),
    "secp521r1": hashes.SHA512(),
}


@dataclass(frozen=True)
class PublicKey:
    """What signatures are checked with; from a certificate, only between two moments."""

    key: ed25519.Ed25519PublicKey | ec.EllipticCurvePublicKey
    not_before: datetime | None = None
    not_after: datetime | None = None

    @property
    def id(self) -> str:
        """SHA-256 of the key's SubjectPublicKeyInfo."""
        info = self.key.public_bytes(encoding.Encoding.DER, encoding.PublicFormat.SubjectPublicKeyInfo)
        return hashlib.sha256(info).hexdigest()

    def signed(self, signature: bytes, message: bytes) -> bool:
        """Whether the signature is this key's over the message."""
        try:
            if isinstance(self.key, ed25519.Ed25519PublicKey):
                self.key.verify(signature, message)
            else:
                self.key.verify(signature, message, ec.ECDSA(_HASHES[self.key.curve.name]))
        except InvalidSignature:
            return False
        return True

    def lapse(self, moment: datetime) -> str | None:
        """Why the key does not count at a moment, if it does not."""
        if self.not_before is not None and moment < self.not_before:
            return f"the key is valid only from {self.not_before:%Y-%m-%d %H:%M} UTC"
        if self.not_after is not None and moment > self.not_after:
            return f"the key expired on {self.not_after:%Y-%m-%d %H:%M} UTC"
        return None


def make_key(path: Path, kind: Kind) -> PublicKey:
    """Writes a new private key, for its owner's eyes only, and `PATH.pub` beside it."""
    public_path = path.with_name(path.name + ".pub")
    refuse_existing(public_path)
    key: Private = (
        ed25519.Ed25519PrivateKey.generate() if kind == "ed25519" else ec.generate_private_key(ec.SECP256R1())
    )
    pem = key.private_bytes(encoding.Encoding.PEM, encoding.PrivateFormat.PKCS8, encoding.NoEncryption())
    write_new(path, pem, "writing the key", mode=0o600)
    public = key.public_key()
    shown = public.public_bytes(encoding.Encoding.PEM, encoding.PublicFormat.SubjectPublicKeyInfo)
    write_new(public_path, shown, "writing the key")
    return PublicKey(public)


def load_private(path: Path) -> Private:
    """A private key from a PEM file that others cannot read."""
    content = read_private(path)
    try:
        key = encoding.load_pem_private_key(content, None)
    except TypeError as error:
        raise EvidenceDamaged(f"{path}: is encrypted", hint="give a key without a passphrase") from error
    except (ValueError, UnsupportedAlgorithm) as error:
        raise EvidenceDamaged(f"{path}: not a private key in PEM form", hint=_hint(content)) from error
    _check_kind(key.public_key(), path)
    assert isinstance(key, Private)
    return key


def sign(key: Private, message: bytes) -> bytes:
    """The key's signature over the message."""
    if isinstance(key, ed25519.Ed25519PrivateKey):
        return key.sign(message)
    return key.sign(message, ec.ECDSA(_HASHES[key.curve.name]))


def load_public(path: Path) -> PublicKey:
    """A public key, or the one a certificate names, from a PEM file."""
    return parse_public(read_evidence(path), path)


def parse_public(content: bytes, path: Path) -> PublicKey:
    """A public key or certificate from a PEM file's bytes."""
    try:
        if b"BEGIN CERTIFICATE" in content:
            certificate = x509.load_pem_x509_certificate(content)
            key = certificate.public_key()
            _check_kind(key, path)
            assert isinstance(key, ed25519.Ed25519PublicKey | ec.EllipticCurvePublicKey)
            return PublicKey(key, certificate.not_valid_before_utc, certificate.not_valid_after_utc)
        public = encoding.load_pem_public_key(content)
    except (ValueError, UnsupportedAlgorithm, x509.InvalidVersion) as error:
        raise EvidenceDamaged(f"{path}: neither a public key nor a certificate in PEM form") from error
    _check_kind(public, path)
    assert isinstance(public, ed25519.Ed25519PublicKey | ec.EllipticCurvePublicKey)
    return PublicKey(public)


def _check_kind(public: object, path: Path) -> None:
    if isinstance(public, ed25519.Ed25519PublicKey):
        return
    if not isinstance(public, ec.EllipticCurvePublicKey) or public.curve.name not in _HASHES:
        raise EvidenceDamaged(f"{path}: neither Ed25519 nor ECDSA on a NIST curve", hint="make one: trainwitness key")


def _hint(content: bytes) -> str:
    return "this is a public key" if b"PUBLIC KEY" in content else "make one: trainwitness key --out FILE"

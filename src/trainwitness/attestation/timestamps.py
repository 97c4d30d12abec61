"""RFC 3161 timestamps: an authority saw these bytes at this time. Fetched from any URL, checked offline.

A timestamp shows that something existed at a time. It never shows that anything else, such as a training run, began
later; only a nonce given out afterwards does that.
"""

from __future__ import annotations

import urllib.error
import urllib.request
from datetime import datetime
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from rfc3161_client import (
    HashAlgorithm,
    TimestampRequestBuilder,
    TimeStampResponse,
    VerificationError,
    VerifierBuilder,
    decode_timestamp_response,
)

from trainwitness.attestation.der import with_sorted_certificates
from trainwitness.core.errors import EvidenceDamaged, UsageError
from trainwitness.core.files import read_evidence

MAX_RESPONSE = 1 << 20
TIMEOUT_SECONDS = 30


class TimestampRefused(Exception):
    """A timestamp that can be read and does not hold."""


def fetch_timestamp(url: str, message: bytes) -> bytes:
    """Asks a time-stamping authority about `message` (of which it sees the SHA-256); returns its response."""
    if not url.startswith(("http://", "https://")):
        raise UsageError(f"{url}: not the address of a time-stamping authority", hint="it begins with http or https")
    asked = TimestampRequestBuilder().data(message).hash_algorithm(HashAlgorithm.SHA256).build()
    request = urllib.request.Request(
        url, asked.as_bytes(), {"Content-Type": "application/timestamp-query"}, method="POST"
    )
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as answer:
            token = bytes(answer.read(MAX_RESPONSE + 1))
    except (OSError, urllib.error.URLError, ValueError) as error:
        raise EvidenceDamaged(f"{url}: no timestamp: {error}", hint="try again, or another authority") from error
    found = _decoded(token[:MAX_RESPONSE], url)
    if found.status:
        raise EvidenceDamaged(f"{url}: the authority refused: {', '.join(found.status_string) or found.status}")
    if found.tst_info.nonce != asked.nonce or found.tst_info.message_imprint.message != asked.message_imprint.message:
        raise EvidenceDamaged(f"{url}: the authority answered another question than was asked")
    return token


def check_timestamp(token: bytes, message: bytes, roots: list[x509.Certificate], name: str) -> datetime:
    """When the authority saw `message`; TimestampRefused if the token is of something else or by someone else."""
    response = _decoded(token, name)
    try:
        VerifierBuilder(roots=list(roots)).build().verify_message(response, message)
        moment: datetime = response.tst_info.gen_time
    except (VerificationError, ValueError, TypeError, UnsupportedAlgorithm, x509.InvalidVersion) as error:
        raise TimestampRefused(f"{name}: {error}") from error
    return moment


def load_roots(path: Path) -> list[x509.Certificate]:
    """The certificates of the authorities that the checker trusts, from a PEM file."""
    try:
        return x509.load_pem_x509_certificates(read_evidence(path))
    except (ValueError, x509.InvalidVersion) as error:
        raise EvidenceDamaged(f"{path}: no certificates in PEM form") from error


def _decoded(token: bytes, name: str) -> TimeStampResponse:
    try:
        return decode_timestamp_response(with_sorted_certificates(token))
    except ValueError as error:
        raise EvidenceDamaged(f"{name}: not an RFC 3161 response: {error}") from error

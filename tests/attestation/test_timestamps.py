"""Timestamps by a real authority (`openssl ts`), fetched over HTTP and checked offline."""

from __future__ import annotations

import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.attestation.authority import Authority
from tests.attestation.conftest import Owner
from tests.commitments.test_commitment import NONCE
from trainwitness import verify
from trainwitness.attestation.der import with_sorted_certificates
from trainwitness.attestation.timestamps import TimestampRefused, check_timestamp, fetch_timestamp, load_roots
from trainwitness.audit.evidence import with_timestamp
from trainwitness.commitments.commitment import Committed
from trainwitness.core.errors import EvidenceDamaged, UsageError

MESSAGE = b"a commitment"


def test_a_fetched_timestamp_holds_for_its_bytes_alone(authority: Authority) -> None:
    token, roots = fetch_timestamp(authority.url, MESSAGE), load_roots(authority.root)
    moment = check_timestamp(token, MESSAGE, roots, "t")
    assert abs(moment - datetime.now(UTC)) < timedelta(minutes=5)
    with pytest.raises(TimestampRefused, match="Mismatch"):
        check_timestamp(token, MESSAGE + b"!", roots, "t")


def test_openssl_checks_what_we_fetch_and_we_check_what_it_fetches(authority: Authority, tmp_path: Path) -> None:
    (tmp_path / "m").write_bytes(MESSAGE)
    (tmp_path / "t.tsr").write_bytes(fetch_timestamp(authority.url, MESSAGE))
    command = ["openssl", "ts", "-verify", "-data", "m", "-in", "t.tsr", "-CAfile", str(authority.root)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "Verification: OK" in done.stdout, done.stderr
    assert check_timestamp(authority.stamp(tmp_path / "m"), MESSAGE, load_roots(authority.root), "t")


def test_certificates_are_put_in_order_and_nothing_else_is_touched(authority: Authority, token_bytes: bytes) -> None:
    both = [x509.load_pem_x509_certificate((authority.folder / name).read_bytes()) for name in ("ca.pem", "tsa.pem")]
    encoded = sorted(one.public_bytes(serialization.Encoding.DER) for one in both)
    for order in (encoded, encoded[::-1]):
        begin = min(token_bytes.index(one) for one in encoded)
        joined = b"".join(order)
        sent = token_bytes[:begin] + joined + token_bytes[begin + len(joined) :]
        sorted_ones = with_sorted_certificates(sent)
        assert sorted_ones == token_bytes[:begin] + b"".join(encoded) + token_bytes[begin + len(joined) :]
        assert check_timestamp(sent, MESSAGE, load_roots(authority.root), "t")
    for nonsense in (b"", b"\x30", b"\x30\x80\x00", b"\x30\x03\x30\x01\x00", bytes(50)):
        assert with_sorted_certificates(nonsense) == nonsense


def test_an_authority_that_is_not_trusted_is_refused(authority: Authority, tmp_path: Path) -> None:
    other = Authority(tmp_path / "other", name="Other")
    token = fetch_timestamp(authority.url, MESSAGE)
    with pytest.raises(TimestampRefused, match="certificates"):
        check_timestamp(token, MESSAGE, load_roots(other.root), "t")


@pytest.mark.parametrize(
    ("path", "problem"),
    [("/broken", "not an RFC 3161 response"), ("/down", "no timestamp"), ("/replay", "another question")],
)
def test_an_authority_that_answers_nonsense_is_refused(authority: Authority, path: str, problem: str) -> None:
    fetch_timestamp(authority.url, MESSAGE)
    with pytest.raises(EvidenceDamaged, match=problem):
        fetch_timestamp(authority.url + path, MESSAGE)


def test_an_authority_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(EvidenceDamaged, match="no timestamp"):
        fetch_timestamp("http://127.0.0.1:9/", MESSAGE)
    for url in ("file:///etc/passwd", "ftp://x", "nonsense"):
        with pytest.raises(UsageError, match="not the address"):
            fetch_timestamp(url, MESSAGE)
    (tmp_path / "none.pem").write_text("nothing")
    with pytest.raises(EvidenceDamaged, match="no certificates"):
        load_roots(tmp_path / "none.pem")


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_altered_timestamps_never_hold(authority: Authority, token_bytes: bytes, data: st.DataObject) -> None:
    token = bytearray(token_bytes)
    at = data.draw(st.integers(0, len(token) - 1))
    token[at] ^= data.draw(st.integers(1, 255))
    cut = data.draw(st.sampled_from([bytes(token), bytes(token[:at])]))
    honest = check_timestamp(token_bytes, MESSAGE, load_roots(authority.root), "t")
    try:
        moment = check_timestamp(cut, MESSAGE, load_roots(authority.root), "t")
    except (TimestampRefused, EvidenceDamaged):
        return
    assert moment == honest  # bytes that say nothing: the wording of the status, unused certificates


@pytest.fixture(scope="module")
def token_bytes(authority: Authority) -> bytes:
    return fetch_timestamp(authority.url, MESSAGE)


def test_the_three_grades_in_words(owner: Owner, authority: Authority, tmp_path: Path) -> None:
    (tmp_path / "t.tsr").write_bytes(authority.stamp(owner.commitment_file))
    bare = verify(owner.trace, commitment=Committed(owner.commitment))
    assert bare.properties["data_committed"].grades == ["committed"]
    stamped = with_timestamp(bare, owner.commitment_file, tmp_path / "t.tsr", authority.root)
    found = stamped.properties["data_committed"]
    assert found.grades == ["committed", "time_stamped"]
    assert "which does not date the training" in found.why
    bound = verify(owner.trace, commitment=Committed(owner.commitment, nonce=NONCE))
    assert bound.properties["data_committed"].grades == ["committed", "before_nonce"]
    both = with_timestamp(bound, owner.commitment_file, tmp_path / "t.tsr", authority.root)
    assert both.properties["data_committed"].grades == ["committed", "before_nonce", "time_stamped"]
    assert both.verdict == "ACCEPT"
    assert "does not date" not in both.properties["data_committed"].why
    none = with_timestamp(verify(owner.trace), owner.commitment_file, tmp_path / "t.tsr", authority.root)
    assert none.properties["data_committed"].standing == "unknown"

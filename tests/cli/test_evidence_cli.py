"""The verbs of evidence as a user types them: JSON, exit codes, bad input. docs/commitments.md has the rest."""

from __future__ import annotations

import json
import stat
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.attestation.authority import Authority
from tests.attestation.conftest import Owner, authority, owner
from tests.attestation.test_keys import certificate
from tests.cli.test_cli import envelope, run
from tests.commitments.test_commitment import NONCE
from trainwitness.attestation.keys import load_private

__all__ = ["authority", "owner"]

VERBS = ["commit", "row", "prove-member", "prove-absent", "check-proof", "key", "timestamp", "attest", "check"]


@pytest.mark.parametrize("verb", VERBS)
def test_help_has_an_example(verb: str, tmp_path: Path) -> None:
    out, _ = run(verb, "--help", cwd=tmp_path)
    assert f"Example: trainwitness {verb} " in " ".join(out.split())


def test_json_of_every_verb(owner: Owner, authority: Authority, tmp_path: Path) -> None:
    def result(kind: str, *arguments: str | Path, code: int = 0) -> dict[str, object]:
        out, _ = run(kind, *arguments, "--json", "-", cwd=tmp_path, code=code)
        return envelope(out, kind)

    result("key", "--out", "s", "--kind", "secret")
    assert stat.S_IMODE((tmp_path / "s").stat().st_mode) == 0o600
    made = result("commit", "softmax-digits", "--out", "c", "--secret", "s", "--leaves", "l")
    assert made["data"]["rows"] == 1500  # type: ignore[index]
    assert (tmp_path / "l").stat().st_size == 1500 * 32
    row = result("row", "softmax-digits", "--index", "3", "--out", "r")
    assert row["index"] == 3
    assert result("prove-member", "c", "softmax-digits", "--index", "3", "--out", "m")["index"] == 3
    assert result("check-proof", "m", "--commitment", "c", "--row", "r")["answer"] == "HOLDS"
    result("row", "softmax-digits", "--test", "--index", "3", "--out", "o")
    result("prove-absent", "c", "softmax-digits", "--row", "o", "--secret", "s", "--out", "a")
    assert result("check-proof", "a", "--commitment", "c", code=4)["missing"] == ["--row", "--secret"]
    refused = result("check-proof", "a", "--commitment", "c", "--row", "r", "--secret", "s", code=1)
    assert refused["answer"] == "REFUSED"
    assert result("timestamp", "c", "--tsa", authority.url, "--out", "t")["file"] == "c"
    key = result("key", "--out", "k", "--kind", "ecdsa")
    claim = result("attest", owner.trace, "--model", owner.model, "--key", "k", "--out", "claim")
    assert claim["statement"]["_type"] == "https://in-toto.io/Statement/v1"  # type: ignore[index]
    checked = result("check", "claim", "--key", "k.pub", "--model", owner.model)
    assert (checked["good"], checked["key"], checked["compared"]) == (True, key["id"], ["model file"])
    assert str(tmp_path) not in json.dumps([made, row, claim, checked])


def test_the_three_grades_on_the_command_line(owner: Owner, authority: Authority, tmp_path: Path) -> None:
    run("timestamp", owner.commitment_file, "--tsa", authority.url, "--out", "t.tsr", cwd=tmp_path)
    given = ["--commitment", owner.commitment_file, "--nonce", NONCE]
    stamped = ["--timestamp", "t.tsr", "--tsa-certificate", authority.root]
    out, _ = run("verify", owner.trace, *given, *stamped, "--json", "v.json", cwd=tmp_path)
    assert "the commitment existed on" in out
    verdict = envelope((tmp_path / "v.json").read_text(), "verify")
    assert verdict["properties"]["data_committed"]["grades"] == ["committed", "before_nonce", "time_stamped"]
    (tmp_path / "other").write_bytes(owner.commitment_file.read_bytes())
    run(
        "timestamp", owner.keys["ed25519"].with_suffix(".key.pub"), "--tsa", authority.url, "--out", "w", cwd=tmp_path
    )
    wrong = ["--timestamp", "w", "--tsa-certificate", authority.root]
    out, _ = run("verify", owner.trace, *given, *wrong, cwd=tmp_path, code=1)
    assert "the timestamp does not hold" in out


def test_expired_certificates_and_timestamps_of_attestations(
    owner: Owner, authority: Authority, tmp_path: Path
) -> None:
    private, now = load_private(owner.keys["ecdsa"]), datetime.now(UTC)
    for name, days in (("past", -1), ("valid", 1)):
        pem = certificate(private, now - timedelta(days=9), now + timedelta(days=days))
        (tmp_path / f"{name}.pem").write_bytes(pem)
    run("attest", owner.trace, "--model", owner.model, "--key", owner.keys["ecdsa"], "--out", "c", cwd=tmp_path)
    run("timestamp", "c", "--tsa", authority.url, "--out", "t", cwd=tmp_path)
    stamped = ["--timestamp", "t", "--tsa-certificate", authority.root]
    out, _ = run("check", "c", "--key", "past.pem", cwd=tmp_path, code=1)
    assert "REFUSED\n  the key expired on" in out
    out, _ = run("check", "c", "--key", "past.pem", *stamped, cwd=tmp_path, code=1)
    assert "the key expired on" in out
    out, _ = run("check", "c", "--key", "valid.pem", *stamped, cwd=tmp_path)
    assert "signed on or before" in out
    run("timestamp", "t", "--tsa", authority.url, "--out", "other", cwd=tmp_path)
    wrong = ["--timestamp", "other", "--tsa-certificate", authority.root]
    _, err = run("check", "c", "--key", "valid.pem", *wrong, cwd=tmp_path, code=3)
    assert "the timestamp does not hold" in err


def test_a_sample_on_the_command_line(owner: Owner, tmp_path: Path) -> None:
    out, _ = run(
        "verify", owner.trace, "--detect-fraction", "0.3", "--confidence", "0.9", "--sample-nonce", "n",
        "--json", "v.json", cwd=tmp_path,
    )  # fmt: skip
    assert "of 12 steps were drawn by the trace's root and nonce n" in out
    assert envelope((tmp_path / "v.json").read_text(), "verify")["sample"]["false_spans"] == 4
    help_text, _ = run("verify", "--help", cwd=tmp_path)
    assert "touches about b/N of the steps" in " ".join(help_text.split())


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["commit", "nonsense", "--out", "x"], 2, "unknown task"),
        (["commit", "none.txt", "--out", "x"], 3, "no such file"),
        (["commit", "softmax-digits", "--out", "data.commit"], 3, "is there already"),
        (["commit", "softmax-digits", "--out", "x", "--secret", "data.commit"], 3, "others can read"),
        (["row", "softmax-digits", "--index", "9999", "--out", "x"], 2, "fewer rows"),
        (["prove-member", "data.commit", "softmax-digits", "--index", "1500", "--out", "x"], 2, "rows 0 to 1499"),
        (["prove-member", "data.commit", "lines.txt", "--index", "1", "--out", "x"], 3, "root"),
        (["check-proof", "data.commit", "--commitment", "data.commit"], 3, "format"),
        (["check-proof", "none", "--commitment", "data.commit"], 3, "cannot be read"),
        (["timestamp", "data.commit", "--tsa", "nonsense", "--out", "x"], 2, "http"),
        (["attest", "run.trace", "--model", "data.commit", "--key", "ed25519.key", "--out", "x"], 3, "safetensors"),
        (["attest", "run.trace", "--model", "model.safetensors", "--key", "none", "--out", "x"], 3, "cannot be read"),
        (["attest", "run.trace", "--model", "model.safetensors", "--key", "ed25519.key.pub", "--out", "x"], 3, "644"),
        (["attest", "run.trace", "--model", "model.safetensors", "--key", "ed25519.key", "--nonce", NONCE,
          "--verdict", "data.commit", "--out", "x"], 2, "verdict"),
        (["attest", "run.trace", "--model", "model.safetensors", "--key", "ed25519.key", "--verdict", "data.commit",
          "--out", "x"], 3, "not a verdict"),
        (["check", "data.commit", "--key", "ed25519.key.pub"], 3, "payload"),
        (["check", "data.commit", "--key", "none"], 3, "cannot be read"),
        (["check", "data.commit", "--key", "ed25519.key.pub", "--timestamp", "data.commit"], 2, "go together"),
        (["verify", "run.trace", "--nonce", NONCE], 2, "--commitment"),
        (["verify", "run.trace", "--commitment", "data.commit", "--nonce", "short"], 2, "nonce of 5 characters"),
        (["verify", "run.trace", "--confidence", "0.9"], 2, "--detect-fraction"),
        (["verify", "run.trace", "--detect-fraction", "0"], 2, "above 0"),
        (["verify", "run.trace", "--timestamp", "data.commit"], 2, "--tsa-certificate"),
        (["record", "softmax-digits", "--out", "x", "--nonce", NONCE], 2, "--commitment"),
        (["record", "softmax-digits", "--out", "x", "--commitment", "data.commit", "--nonce", NONCE, "--seed", "1"],
         2, "no --seed"),
        (["record", "softmax-digits", "--out", "x", "--commitment", "lines.commit", "--nonce", NONCE], 3, "data has"),
    ],
)  # fmt: skip
def test_bad_input(owner: Owner, arguments: list[str], code: int, words: str) -> None:
    lines = owner.folder / "lines.txt"
    if not lines.exists():
        lines.write_text("one\ntwo\n")
        run("commit", "lines.txt", "--out", "lines.commit", cwd=owner.folder)
    _, err = run(*arguments, cwd=owner.folder, code=code)
    assert words in err
    assert err.startswith("error: ")
    assert not (owner.folder / "x").exists()


def test_a_missing_extra_is_one_sentence(owner: Owner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("trainwitness.attestation")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "cryptography", None)
    monkeypatch.setitem(sys.modules, "rfc3161_client", None)
    for arguments in (["key", "--out", "k"], ["timestamp", "f", "--tsa", "http://x", "--out", "t"]):
        _, err = run(*arguments, cwd=tmp_path, code=2)
        assert "is not installed" in err
        assert "pip install 'trainwitness[attest]'" in err

"""kill -9 and full disks around commit and attest: real processes, a real small disk."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import BinaryIO

import pytest
from typer.testing import CliRunner

from tests.attestation.conftest import Owner
from tests.trace.test_crash import ROOT, small_disk
from trainwitness.attestation.keys import make_key
from trainwitness.cli.main import app
from trainwitness.commitments.commitment import Commitment, Rows, commit, write_commitment
from trainwitness.core.errors import StorageError
from trainwitness.core.files import write_new

__all__ = ["small_disk"]


def test_owners_killed_at_random_moments_leave_whole_files() -> None:
    """25 rounds here; `python -m tests.evidence.kill_loop` for a thousand."""
    command = [sys.executable, "-m", "tests.evidence.kill_loop", "--rounds", "25"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(re.search(r"'\.claim': (\d+)", done.stdout)[1]) >= 5  # type: ignore[index]


def many(file: BinaryIO | None) -> Commitment:
    rows = Rows("many", "bytes", lambda: (number.to_bytes(4, "big") for number in range(20_000)))
    return commit(rows, leaves=file)


def test_a_full_disk_leaves_no_half_commitment(small_disk: Path) -> None:
    with pytest.raises(StorageError, match="committing stopped: No space left on device") as caught:
        write_commitment(small_disk / "c", many, small_disk / "leaves")
    assert caught.value.exit_code == 3
    assert list(small_disk.iterdir()) == []
    write_commitment(small_disk / "c", many, None)  # the commitment itself is small
    assert [path.name for path in small_disk.iterdir()] == ["c"]


def fill(file: BinaryIO) -> None:
    while True:
        try:
            file.write(b"x" * 4096)
        except OSError:
            return


def test_a_full_disk_leaves_no_half_attestation_or_key(small_disk: Path, owner: Owner) -> None:
    with (small_disk / "ballast").open("wb", buffering=0) as file:
        fill(file)
    out = small_disk / "claim.json"
    arguments = ["attest", owner.trace, "--model", owner.model, "--key", owner.keys["ed25519"], "--out", out]
    done = CliRunner().invoke(app, list(map(str, arguments)))
    assert done.exit_code == 3
    assert "attesting stopped: No space left" in done.stderr
    with pytest.raises(StorageError, match="No space left"):
        make_key(small_disk / "k", "ed25519")
    assert [path.name for path in small_disk.iterdir()] == ["ballast"]


def test_evidence_is_never_overwritten(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("precious")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    for name in ("real", "link"):
        with pytest.raises(StorageError, match="is there already"):
            write_new(tmp_path / name, b"new", "attesting")
    assert (tmp_path / "real").read_text() == "precious"
    with pytest.raises(StorageError, match="attesting stopped"):
        write_new(tmp_path / "none" / "x", b"new", "attesting")

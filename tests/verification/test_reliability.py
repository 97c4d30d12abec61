"""Killed recorders and hostile traces, through the whole of verification."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from hypothesis import HealthCheck, given, settings

from tests.conftest import tiny_task
from tests.trace.test_hostile import REFUSED, mutations, write
from trainwitness import Threshold, verify
from trainwitness.trace import format as f

ROOT = Path(__file__).parents[2]


def test_recorders_killed_at_random_moments_leave_what_verifies() -> None:
    """25 rounds here; `python -m tests.verification.kill_loop` for a thousand."""
    command = [sys.executable, "-m", "tests.verification.kill_loop", "--rounds", "25"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(re.search(r"'verified': (\d+)", done.stdout)[1]) >= 5  # type: ignore[index]


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(mutations())
def test_mutated_traces_are_never_accepted(
    tmp_path: Path, sealed_files: dict[str, bytes], mutate: Callable[[dict[str, bytes]], dict[str, bytes]]
) -> None:
    changed = mutate(sealed_files)
    folder = write(tmp_path / "t", changed)
    try:
        verdict = verify(folder, task=tiny_task(), threshold=Threshold(value=1.0))
    except REFUSED:
        assert changed != sealed_files
        return
    assert verdict.verdict == ("ACCEPT" if changed == sealed_files else "INCONCLUSIVE")
    assert changed == sealed_files or f.SEAL not in changed

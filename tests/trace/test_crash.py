"""kill -9, full disks and rivals: real processes, a real small disk."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import tiny_task
from trainwitness import Trace, record
from trainwitness.core.errors import StorageError
from trainwitness.trace import format as f

ROOT = Path(__file__).parents[2]
RECORD_FOREVER = """
import sys
from tests.conftest import tiny_task
from trainwitness import record
record(tiny_task(), sys.argv[1], steps=1_000_000, chunk_steps=5, resume=sys.argv[2] == "resume",
       on_step=lambda step, loss: print(step, flush=True))
"""


def start_recorder(folder: Path, mode: str = "new") -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", RECORD_FOREVER, str(folder), mode],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_for_step(process: subprocess.Popen[str], wanted: int) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        if int(line) >= wanted:
            return
    raise AssertionError(process.stderr.read() if process.stderr else "")


def test_kill_9_loses_at_most_the_open_chunk(tmp_path: Path) -> None:
    rng, before = random.Random(0), 0
    for round_number in range(6):
        process = start_recorder(tmp_path / "t", "new" if round_number == 0 else "resume")
        reached = before + rng.randrange(12, 60)
        wait_for_step(process, reached)
        time.sleep(rng.random() * 0.02)
        process.send_signal(signal.SIGKILL)
        process.wait()
        trace = Trace.open(tmp_path / "t")
        checked = trace.check()
        assert not trace.sealed
        assert checked.steps >= reached - 5 - 3  # the open chunk, and the States on their way to the writer
        assert checked.steps >= before
        before = checked.steps
    assert len(trace.sessions) == 5
    straight = record(tiny_task(), tmp_path / "straight", steps=before)
    assert checked.final_state == Trace.open(straight.path).check().final_state


def test_ctrl_c_keeps_every_step(tmp_path: Path) -> None:
    process = start_recorder(tmp_path / "t")
    wait_for_step(process, 12)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate()
    reached = int(output.split()[-1]) if output.split() else 12
    trace = Trace.open(tmp_path / "t")
    assert trace.check().steps >= reached
    assert not trace.sealed


def test_two_recorders_on_one_folder_refuse_each_other(tmp_path: Path) -> None:
    process = start_recorder(tmp_path / "t")
    try:
        wait_for_step(process, 1)
        for resume in (False, True):
            with pytest.raises(StorageError, match="another recorder"):
                record(tiny_task(), tmp_path / "t", steps=3, resume=resume)
    finally:
        process.kill()
        process.wait()
    record(tiny_task(), tmp_path / "t", steps=2_000, resume=True)  # the dead recorder's lock does not stay
    assert Trace.open(tmp_path / "t").sealed


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 200 kB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=200k", "tmpfs", str(folder)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("mounting a small file system needs root")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_stops_recording_and_leaves_a_readable_trace(small_disk: Path) -> None:
    with pytest.raises(StorageError, match="No space left on device") as caught:
        record(tiny_task(), small_disk / "t", steps=100_000, chunk_steps=20)
    assert "resum" in (caught.value.hint or "")
    assert caught.value.exit_code == 3
    trace = Trace.open(small_disk / "t")
    assert trace.check().steps >= 20
    assert not trace.sealed
    assert not list((small_disk / "t").glob("*.tmp"))
    os.truncate(small_disk / "t" / f.chunk_name(trace.chunks - 1), 0)  # make room; a damaged trace is not resumed
    with pytest.raises(Exception, match=r"\.twc"):
        record(tiny_task(), small_disk / "t", steps=10, resume=True)


def test_a_disk_full_from_the_start(small_disk: Path) -> None:
    (small_disk / "ballast").write_bytes(b"x" * 200_000)
    with pytest.raises(StorageError, match="No space left"):
        record(tiny_task(), small_disk / "t", steps=5)


def test_a_read_only_place(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match="recording stopped"):
        record(tiny_task(), tmp_path / "file", steps=1)
    with pytest.raises(StorageError, match="recording stopped"):
        record(tiny_task(), Path("/proc/none/t"), steps=1)


def test_a_folder_with_other_things_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(StorageError, match=r"thesis\.tex"):
        record(tiny_task(), tmp_path, steps=1)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]

"""Traces come back as they were recorded, from a folder or one file, whole or in part."""

from __future__ import annotations

import base64
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from tests.conftest import tiny_task
from trainwitness import Stepper, Trace, pack, record, unpack
from trainwitness.commitments.merkle import Frontier
from trainwitness.core.errors import StorageError, TraceDamaged, UsageError
from trainwitness.trace import format as f
from trainwitness.trace.layout import Buffer
from trainwitness.trace.rows import record_batch
from trainwitness.trace.writer import TraceWriter

MOMENTUM = {"optimizer": lambda p, lr: torch.optim.SGD(p, lr=lr, momentum=0.9)}

MakeTrace = Callable[..., Path]


@pytest.mark.parametrize("changes", [{}, MOMENTUM], ids=["sgd", "momentum"])
def test_every_state_and_batch_comes_back(make_trace: MakeTrace, changes: dict[str, object]) -> None:
    task = tiny_task(**changes)
    trace = Trace.open(make_trace(**changes))
    stepper = Stepper(task)
    assert trace.initial_state().digest() == stepper.state().digest()
    for step, segment in enumerate(trace.segments()):
        assert segment.before.digest() == stepper.state().digest()
        assert segment.batches == (task.schedule.batch(step),)
        stepper.run(task.schedule.batch(step))
        assert segment.after.digest() == stepper.state().digest()
    assert trace.final_state().digest() == stepper.state().digest()
    assert trace.steps == 7
    assert trace.sealed
    assert trace.chunks == 3


def test_the_same_command_gives_the_same_bytes(make_trace: MakeTrace) -> None:
    one, other = make_trace("one"), make_trace("other")
    assert {p.name: p.read_bytes() for p in one.iterdir()} == {p.name: p.read_bytes() for p in other.iterdir()}


def test_any_range_is_read_from_its_own_chunk(make_trace: MakeTrace) -> None:
    trace = Trace.open(make_trace())
    everything = [segment.after.digest() for segment in trace.segments()]
    for start in range(8):
        for stop in range(start, 8):
            assert [s.after.digest() for s in trace.segments(start, stop)] == everything[start:stop]
    for bad in ((-1, 3), (3, 2), (0, 8)):
        with pytest.raises(UsageError, match="of a trace of 7 steps"):
            list(trace.segments(*bad))


def test_check_gives_the_roots(make_trace: MakeTrace) -> None:
    trace = Trace.open(make_trace())
    checked = trace.check()
    assert trace.seal is not None
    leaves = [f.initial_leaf(checked.initial_state or "")] + [frame.leaf for frame in trace.frames()]
    assert checked.step_root == Frontier(leaves).root().hex() == trace.seal.step_root
    assert trace.manifest.data.root == Frontier(tiny_task().dataset.rows()).root().hex()
    assert checked.final_state == trace.final_state().digest().hex()


@pytest.mark.parametrize("every", [2, 3, 10])
def test_sparse_checkpoints_keep_every_batch_and_the_last_state(tmp_path: Path, every: int) -> None:
    task = tiny_task()
    record(task, tmp_path / "t", steps=8, checkpoint_every=every, chunk_steps=3)
    trace = Trace.open(tmp_path / "t")
    segments = list(trace.segments())
    kept = [segment.records[-1].step for segment in segments]
    assert kept == sorted({step for step in range(8) if (step + 1) % every == 0} | {7})
    assert [batch for segment in segments for batch in segment.batches] == [task.schedule.batch(k) for k in range(8)]
    stepper = Stepper(task)
    for step in range(8):
        stepper.run(task.schedule.batch(step))
    assert trace.check().final_state == stepper.state().digest().hex()


def test_packed_and_unpacked(make_trace: MakeTrace, tmp_path: Path) -> None:
    folder = make_trace()
    pack(folder, tmp_path / "one.zip")
    pack(folder, tmp_path / "two.zip")
    assert (tmp_path / "one.zip").read_bytes() == (tmp_path / "two.zip").read_bytes()
    assert Trace.open(tmp_path / "one.zip").check().step_root == Trace.open(folder).check().step_root
    unpack(tmp_path / "one.zip", tmp_path / "again")
    assert {p.name: p.read_bytes() for p in folder.iterdir()} == {
        p.name: p.read_bytes() for p in (tmp_path / "again").iterdir()
    }
    for function, source, target in ((pack, folder, "one.zip"), (unpack, tmp_path / "one.zip", "again")):
        with pytest.raises(StorageError, match="already exists"):
            function(source, tmp_path / target)
    with pytest.raises(TraceDamaged, match="not a packed trace"):
        unpack(Path(__file__), tmp_path / "no")
    assert not (tmp_path / "no").exists()


def test_carried_rows_are_kept_and_counted(tmp_path: Path) -> None:
    task, folder = tiny_task(), tmp_path / "forged"
    stepper = Stepper(task)
    record(task, tmp_path / "honest", steps=1)
    manifest = Trace.open(tmp_path / "honest").manifest
    folder.mkdir()
    writer = TraceWriter.create(folder, manifest, Buffer.of(stepper.state().tensors))
    row = base64.b64encode(task.dataset.row(3)).decode()
    step = f.StepRecord(step=0, epoch=0, rows=[[1, 2]], groups=[{"lr": 0.1}], state=None, carried={"1": row})
    writer.append(step, Buffer.of(stepper.state().tensors))
    writer.seal()
    trace = Trace.open(folder)
    assert trace.check().carried_rows == 1
    assert next(trace.segments()).batches[0].carried == {1: task.dataset.row(3)}


@pytest.mark.parametrize("carried", [{"1": "!!"}, {"x": ""}, {"2": ""}, {"-1": ""}])
def test_a_bad_carried_row_is_refused(carried: dict[str, str]) -> None:
    record_with = f.StepRecord(step=4, epoch=0, rows=[[1, 2]], groups=[], state=None, carried=carried)
    with pytest.raises(TraceDamaged, match="step 4"):
        record_batch(record_with)


def test_things_that_are_not_traces(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="no such trace"):
        Trace.open(tmp_path / "absent")
    with pytest.raises(TraceDamaged, match="not a trace"):
        Trace.open(tmp_path)
    (tmp_path / "notes.txt").touch()
    with pytest.raises(TraceDamaged, match="does not belong in a trace"):
        Trace.open(tmp_path)


def test_a_step_range_does_not_read_other_chunks(make_trace: MakeTrace) -> None:
    """Only the chunk asked for is opened to its last byte: damage elsewhere is not noticed there."""
    folder = make_trace()
    content = bytearray((folder / "chunk-000001.twc").read_bytes())
    content[-60] ^= 1
    (folder / "chunk-000001.twc").write_bytes(content)
    trace = Trace.open(folder)
    assert len(list(trace.segments(0, 3))) == 3
    with pytest.raises(TraceDamaged, match=r"chunk-000001\.twc"):
        list(trace.segments(3, 4))


def test_packing_leaves_other_peoples_files_alone(make_trace: MakeTrace, tmp_path: Path) -> None:
    folder = make_trace()
    (tmp_path / "p.zip.tmp").write_text("precious")
    (tmp_path / "out.tmp").mkdir()
    (tmp_path / "out.tmp" / "f").write_text("precious")
    pack(folder, tmp_path / "p.zip")
    unpack(tmp_path / "p.zip", tmp_path / "out")
    assert (tmp_path / "p.zip.tmp").read_text() == (tmp_path / "out.tmp" / "f").read_text() == "precious"
    assert {path.name for path in tmp_path.iterdir()} == {"run.trace", "p.zip", "p.zip.tmp", "out", "out.tmp"}
    with pytest.raises(StorageError, match="packing stopped"):
        pack(folder, tmp_path / "no" / "p.zip")

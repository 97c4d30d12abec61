"""Traces of exact arithmetic: small, complete, and damaged by nobody unnoticed."""

from __future__ import annotations

import hashlib
import threading
from concurrent.futures import Future
from pathlib import Path

import pytest

from tests.conftest import tiny_task
from trainwitness import Numerics, State, Stepper, Trace, pack, record, unpack, verify
from trainwitness.core.errors import StorageError, TraceDamaged, TraceMismatch, UsageError
from trainwitness.trace.exact_reader import ExactTrace
from trainwitness.trace.exact_writer import ExactWriter
from trainwitness.training.exact.leaf import UNFINISHED, PendingLeaf

EXACT = Numerics(precision="exact", threads=1)


def made(path: Path, steps: int = 12, **settings: object) -> ExactTrace:
    record(tiny_task(), path, steps=steps, numerics=EXACT, chunk_steps=4, **settings)  # type: ignore[arg-type]
    trace = Trace.open(path)
    assert isinstance(trace, ExactTrace)
    return trace


def test_a_step_is_32_bytes(tmp_path: Path) -> None:
    small, long = (made(tmp_path / str(steps), steps).check().stored_bytes for steps in (400, 800))
    per_chunk = 700  # header, table, names and digests of a chunk of four steps
    assert long - small <= 400 * 32 + 100 * per_chunk


def test_reading_gives_every_step_back(tmp_path: Path) -> None:
    trace = made(tmp_path / "t", explicit_rows=True)
    task = tiny_task()
    steps = list(trace.exact_steps())
    assert [step.step for step in steps] == list(range(12))
    assert [step.batch for step in steps] == [task.schedule.batch(k) for k in range(12)]
    assert len({step.leaf for step in steps}) == 12
    assert [step.step for step in trace.exact_steps(5, 7)] == [5, 6]
    assert trace.check().steps == 12
    assert [s.batch for s in made(tmp_path / "u").exact_steps()] == [None] * 12


def test_checkpoints_are_sparse(tmp_path: Path) -> None:
    trace = made(tmp_path / "t", checkpoint_every=5)
    found = [trace.checkpoint(step)[0] for step in range(12)]
    assert found == [0] * 5 + [5] * 5 + [10] * 2
    assert trace.checkpoint(3)[1] is None
    assert trace.next_checkpoint(0) == 5
    assert trace.next_checkpoint(11) is None


def test_an_initial_state_that_no_seed_gives_everywhere_is_stored(tmp_path: Path) -> None:
    record(tiny_task(initialisation="torch"), tmp_path / "t", steps=3, numerics=EXACT)
    trace = Trace.open(tmp_path / "t")
    assert isinstance(trace, ExactTrace)
    assert trace.checkpoint(0)[1] is not None
    assert verify(trace, task=tiny_task(initialisation="torch")).verdict == "ACCEPT"


def test_the_same_run_gives_the_same_leaves_and_packs(tmp_path: Path) -> None:
    one, two = made(tmp_path / "a"), made(tmp_path / "b", checkpoint_every=3, explicit_rows=True)
    assert one.seal
    assert two.seal
    assert (one.seal.step_root, one.seal.final_state) == (two.seal.step_root, two.seal.final_state)
    pack(tmp_path / "a", tmp_path / "a.zip")
    unpack(tmp_path / "a.zip", tmp_path / "c")
    assert verify(tmp_path / "c", task=tiny_task()).verdict == "ACCEPT"


def test_an_interrupted_recording_goes_on_where_it_was(tmp_path: Path) -> None:
    class Stop(Exception):
        pass

    def stop(step: int, _: object) -> None:
        if step == 6:
            raise Stop

    with pytest.raises(Stop):
        record(tiny_task(), tmp_path / "t", steps=12, numerics=EXACT, chunk_steps=4, checkpoint_every=3, on_step=stop)
    broken = Trace.open(tmp_path / "t")
    assert (broken.sealed, broken.steps) == (False, 7)
    assert verify(broken, task=tiny_task()).verdict == "INCONCLUSIVE"
    with pytest.raises(StorageError, match="already holds a trace"):
        record(tiny_task(), tmp_path / "t", steps=12, numerics=EXACT)
    with pytest.raises(TraceMismatch, match="another task"):
        record(tiny_task(seed=5), tmp_path / "t", steps=12, numerics=EXACT, resume=True)
    record(tiny_task(), tmp_path / "t", steps=12, numerics=EXACT, resume=True)
    whole, resumed = made(tmp_path / "whole"), Trace.open(tmp_path / "t")
    assert whole.seal
    assert resumed.seal
    assert resumed.seal.step_root == whole.seal.step_root
    assert len(resumed.sessions) == 1
    assert verify(resumed, task=tiny_task()).verdict == "ACCEPT"
    with pytest.raises(StorageError, match="sealed"):
        record(tiny_task(), tmp_path / "t", steps=13, numerics=EXACT, resume=True)


def test_every_altered_byte_is_noticed(tmp_path: Path) -> None:
    made(tmp_path / "t", steps=6, checkpoint_every=3, explicit_rows=True)
    for path in sorted((tmp_path / "t").iterdir()):
        content = path.read_bytes()
        for at in range(0, len(content), 7):
            path.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
            with pytest.raises(TraceDamaged):
                Trace.open(tmp_path / "t").check()
        path.write_bytes(content[:-1])
        with pytest.raises(TraceDamaged):
            Trace.open(tmp_path / "t").check()
        path.write_bytes(content)
    assert Trace.open(tmp_path / "t").check().steps == 6


def test_what_needs_states_says_so(tmp_path: Path) -> None:
    trace = made(tmp_path / "t")
    for ask in (trace.final_state, trace.initial_state, trace.frames, trace.segments):
        with pytest.raises(UsageError, match="digests of its States"):
            ask()


def test_settings_that_make_no_sense_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="checkpoint_every"):
        made(tmp_path / "t", checkpoint_every=0)
    with pytest.raises(UsageError, match="explicit rows in a float trace"):
        record(tiny_task(), tmp_path / "u", steps=1, explicit_rows=True)


def on_its_way(leaves: list[Future[list[bytes]]]) -> PendingLeaf:
    leaves.append(Future())
    return PendingLeaf(b"step", [(b"array", 1)], leaves[-1:])


def writer_at(path: Path) -> tuple[ExactWriter, State]:
    source, state = made(path / "source"), Stepper(tiny_task(), EXACT).state()
    (path / "t").mkdir()
    return ExactWriter.create(path / "t", source.manifest, state), state


def test_leaves_are_finished_before_they_are_written(tmp_path: Path) -> None:
    writer, state = writer_at(tmp_path)
    leaves: list[Future[list[bytes]]] = []
    for _ in range(UNFINISHED):
        writer.append(on_its_way(leaves), None, lambda: state)
    written = threading.Thread(target=writer.flush)
    written.start()
    for number, leaf in enumerate(leaves):
        written.join(0.05)
        assert written.is_alive()
        assert not list((tmp_path / "t").glob("chunk-*"))
        leaf.set_result([bytes([number]) * 32])
    written.join(10)
    trace = Trace.open(tmp_path / "t")
    assert isinstance(trace, ExactTrace)
    expected = [hashlib.sha256(b"steparray" + bytes([number]) * 32).digest() for number in range(UNFINISHED)]
    assert [step.leaf for step in trace.exact_steps()] == expected


def test_a_leaf_that_fails_is_not_written(tmp_path: Path) -> None:
    writer, state = writer_at(tmp_path)
    leaves: list[Future[list[bytes]]] = []
    for _ in range(UNFINISHED):
        writer.append(on_its_way(leaves), None, lambda: state)
    leaves[0].set_exception(RuntimeError("no GPU any more"))
    with pytest.raises(RuntimeError, match="no GPU"):
        writer.append(on_its_way(leaves), None, lambda: state)
    with pytest.raises(RuntimeError, match="no GPU"):
        writer.flush()
    assert sorted(path.name for path in (tmp_path / "t").iterdir()) == ["manifest.json"]


def test_steps_before_a_leaf_that_fails_are_rescued(tmp_path: Path) -> None:
    writer, state = writer_at(tmp_path)
    leaves: list[Future[list[bytes]]] = []
    for _ in range(UNFINISHED):
        writer.append(on_its_way(leaves), None, lambda: state)
    leaves[0].set_result([bytes(32)])
    writer.append(on_its_way(leaves), None, lambda: state)
    leaves[1].set_exception(RuntimeError("no GPU any more"))
    with pytest.raises(RuntimeError, match="no GPU"):
        writer.append(on_its_way(leaves), None, lambda: state)
    writer.rescue()
    trace = Trace.open(tmp_path / "t")
    assert isinstance(trace, ExactTrace)
    assert [step.leaf for step in trace.exact_steps()] == [hashlib.sha256(b"steparray" + bytes(32)).digest()]

"""Writing a trace from States and records that already exist: a copy with changes, an attacker's or a test's."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from trainwitness.core.errors import StorageError
from trainwitness.core.state import State
from trainwitness.trace.format import Manifest, StepRecord
from trainwitness.trace.layout import Buffer
from trainwitness.trace.reader import Trace
from trainwitness.trace.writer import FolderLock, TraceWriter

Step = tuple[StepRecord, State | None]


def write_trace(folder: Path, manifest: Manifest, initial: State, steps: Iterable[Step]) -> None:
    """A sealed trace of the given steps, each with the State after it (None where it is not kept)."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise StorageError(f"{folder}: is there already", hint="choose another place")
    lock = FolderLock(folder)
    try:
        writer = TraceWriter.create(folder, manifest, Buffer.of(initial.tensors))
        for record, state in steps:
            writer.append(record, None if state is None else Buffer.of(state.tensors))
        writer.seal()
    finally:
        lock.release()


def rewrite(source: Trace, folder: Path, edit: Callable[[StepRecord], StepRecord]) -> None:
    """A copy of a trace with every step's record passed through `edit`; the States stay as they are."""
    write_trace(folder, source.manifest, source.initial_state(), _edited(source, edit))


def _edited(source: Trace, edit: Callable[[StepRecord], StepRecord]) -> Iterator[Step]:
    for segment in source.segments():
        for record in segment.records:
            yield edit(record), segment.after if record is segment.records[-1] else None

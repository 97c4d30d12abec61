"""TraceWriter: puts records and States on disk, so that a crash at any moment loses at most the open chunk."""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path

from trainwitness.commitments.merkle import Frontier
from trainwitness.core.environment import Environment
from trainwitness.core.errors import StorageError
from trainwitness.core.files import storage_errors, write_whole
from trainwitness.trace import format as f
from trainwitness.trace.chunk import ChunkWriter
from trainwitness.trace.codec import Encoder, predict
from trainwitness.trace.layout import EMPTY, Buffer
from trainwitness.trace.reader import Trace


class FolderLock:
    """Only one recorder per folder. The system lets go of the lock when its process dies, however it dies."""

    def __init__(self, folder: Path) -> None:
        with storage_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
            self._path = folder / f.LOCK
            self._file = self._path.open("ab")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # The recorder before us may have removed the file between our opening and locking it.
            if os.fstat(self._file.fileno()).st_ino != self._path.stat().st_ino:
                raise BlockingIOError
        except OSError as error:
            self._file.close()
            raise StorageError(
                f"{folder}: another recorder is writing here", hint="wait for it, or choose another folder"
            ) from error

    def release(self) -> None:
        """Lets another recorder in."""
        if not self._file.closed:
            with suppress(OSError):
                self._path.unlink()
            self._file.close()


def refuse_used_folder(folder: Path) -> None:
    """A recording begins in a folder that holds nothing but the leftovers of one that never began."""
    used = [entry.name for entry in folder.iterdir() if entry.name != f.LOCK]
    if f.MANIFEST in used:
        raise StorageError(
            f"{folder}: already holds a trace", hint="choose another folder, or resume it if it is unsealed"
        )
    if any(not name.endswith(f.TEMPORARY) for name in used):
        raise StorageError(f"{folder}: not empty: {sorted(used)[0]}", hint="choose another folder")


class TraceWriter:
    """Writes one trace into a locked folder. Not for several threads at once."""

    def __init__(self, folder: Path, manifest: f.Manifest, trace_id: str, initial: Buffer) -> None:
        self.manifest, self.trace_id = manifest, trace_id
        self._folder = folder
        self._last, self._last_digest = initial, initial.state().digest().hex()
        self._chunk: ChunkWriter | None = None
        self._chunks: list[str] = []
        self._sessions: list[str] = []
        self._steps = 0
        self.waiting: list[f.StepRecord] = []
        """Steps that have no State yet."""
        self._tree = Frontier([f.initial_leaf(self._last_digest)])
        self._encoder = Encoder()

    @classmethod
    def create(cls, folder: Path, manifest: f.Manifest, initial: Buffer) -> TraceWriter:
        """Begins a trace with its initial State."""
        with storage_errors(folder):
            content, trace_id = f.dump(manifest)
            write_whole(folder / f.MANIFEST, content)
        return cls(folder, manifest, trace_id, initial)

    @classmethod
    def resume(cls, folder: Path, trace: Trace, environment: Environment) -> TraceWriter:
        """Goes on after the last whole chunk of an unsealed trace; records where it went on, and on what."""
        initial = Buffer.of(trace.initial_state().tensors)
        writer = cls(folder, trace.manifest, trace.id, initial)
        for frame in trace.frames():
            writer._tree.append(frame.leaf)
        writer._last = Buffer.of(trace.final_state().tensors)
        writer._last_digest = writer._last.state().digest().hex()
        writer._steps = trace.steps
        writer._chunks = list(trace.chunk_digests)
        session = f.Session(trace=trace.id, first_step=trace.steps, environment=environment)
        content, digest = f.dump(session)
        number = len(trace.sessions) + 1
        with storage_errors(folder):
            for leftover in folder.glob(f"*{f.TEMPORARY}"):
                leftover.unlink()
            write_whole(folder / f.session_name(number), content)
        writer._sessions = [*trace.session_digests, digest]
        return writer

    def append(self, record: f.StepRecord | None, buffer: Buffer | None) -> Buffer | None:
        """Adds a step and, where it is a checkpoint, its State. Returns a Buffer that may be used again.

        Steps without a State wait in memory for the next one that has it, so no chunk ends without its State. With
        no record, `buffer` is the State of the last step that waits.
        """
        if record is None:
            if not self.waiting:
                return buffer
            record = self.waiting.pop()
        if buffer is None:
            self.waiting.append(record)
            return None
        with storage_errors(self._folder):
            chunk = self._chunk = self._chunk or self._new_chunk()
            for stateless in self.waiting:
                self._write(chunk, stateless.model_copy(update={"state": None}), [])
            self.waiting = []
            digest = buffer.state().digest().hex()
            table = None if buffer.layout == self._last.layout else buffer.layout.table()
            rate = _momentum_rate(record) if table is None else None
            if rate is not None:
                predict(buffer, self._last, rate)
            data = self._encoder.encode(buffer, self._last)
            self._write(chunk, record.model_copy(update={"state": digest, "tensors": table, "predict": rate}), data)
            freed, self._last, self._last_digest = self._last, buffer, digest
            if chunk.steps >= self.manifest.chunk_steps:
                self.flush()
        return freed

    def _write(self, chunk: ChunkWriter, record: f.StepRecord, data: list[bytes]) -> None:
        leaf = record.to_bytes()
        chunk.append(leaf, data)
        self._tree.append(leaf)
        self._steps += 1

    def flush(self) -> None:
        """Finishes the open chunk, or drops it: what failed half way is not tried again."""
        chunk, self._chunk = self._chunk, None
        if chunk is None:
            return
        try:
            with storage_errors(self._folder):
                self._chunks.append(chunk.finish().hex())
        except StorageError:
            chunk.abandon()
            raise

    def seal(self) -> str:
        """Finishes the trace and returns its step root."""
        if self.waiting:
            raise StorageError(
                f"{self._folder}: the last {len(self.waiting)} steps have no State and cannot be sealed"
            )
        self.flush()
        seal = f.Seal(
            trace=self.trace_id,
            steps=self._steps,
            chunks=self._chunks,
            sessions=self._sessions,
            step_root=self._tree.root().hex(),
            data_root=self.manifest.data.root,
            final_state=self._last_digest,
        )
        with storage_errors(self._folder):
            write_whole(self._folder / f.SEAL, f.dump(seal)[0])
        return seal.step_root

    def abandon(self) -> None:
        """Drops the open chunk; the whole ones stay."""
        if self._chunk is not None:
            self._chunk.abandon()
            self._chunk = None

    def _new_chunk(self) -> ChunkWriter:
        header = f.ChunkHeader(
            trace=self.trace_id,
            index=len(self._chunks),
            previous=self._chunks[-1] if self._chunks else f.NO_DIGEST,
            first_step=self._steps,
            state=self._last_digest,
            tensors=self._last.layout.table(),
        )
        path = self._folder / f.chunk_name(header.index)
        return ChunkWriter(path, header, self._encoder.encode(self._last, EMPTY))


def _momentum_rate(record: f.StepRecord) -> float | None:
    """The learning rate of a step with momentum (SGD's; others do not move by rate x buffer)."""
    group = record.groups[0] if record.groups else {}
    rate, momentum = group.get("lr"), group.get("momentum")
    return rate if momentum and isinstance(rate, float) and group.get("nesterov") is False else None

"""ExactWriter: puts the leaves of an exact run on disk."""

from __future__ import annotations

import base64
from collections.abc import Callable
from pathlib import Path

import zstandard

from trainwitness.commitments.merkle import Frontier
from trainwitness.core.batch import Batch
from trainwitness.core.environment import Environment
from trainwitness.core.files import storage_errors, write_whole
from trainwitness.core.state import State
from trainwitness.trace import format as f
from trainwitness.trace.chunk import EXACT_MAGIC, ChunkWriter
from trainwitness.trace.codec import encode
from trainwitness.trace.exact_reader import ExactTrace
from trainwitness.trace.layout import EMPTY, Buffer
from trainwitness.training.exact.leaf import UNFINISHED, PendingLeaf


class ExactWriter:
    """Collects leaves until a chunk is full; a chunk that begins at a checkpoint holds the State there."""

    def __init__(self, folder: Path, manifest: f.Manifest, trace_id: str, initial: State) -> None:
        self.manifest, self.trace_id = manifest, trace_id
        self._folder = folder
        self._chunks: list[str] = []
        self._sessions: list[str] = []
        self._waiting: list[tuple[bytes | PendingLeaf, Batch | None]] = []
        self._first = 0
        self._before = initial.digest().hex()
        self._tree = Frontier([f.initial_leaf(self._before)])
        self._keyframe = Buffer.of(initial.tensors) if manifest.initialisation != "portable" else None

    @classmethod
    def create(cls, folder: Path, manifest: f.Manifest, initial: State) -> ExactWriter:
        """Begins a trace."""
        content, trace_id = f.dump(manifest)
        with storage_errors(folder):
            write_whole(folder / f.MANIFEST, content)
        return cls(folder, manifest, trace_id, initial)

    @classmethod
    def resume(
        cls, folder: Path, trace: ExactTrace, initial: State, state: State, environment: Environment
    ) -> ExactWriter:
        """Goes on after the last whole chunk, from `state`."""
        writer = cls(folder, trace.manifest, trace.id, initial)
        for step in trace.exact_steps():
            writer._tree.append(step.leaf)
        writer._chunks = list(trace.chunk_digests)
        content, digest = f.dump(f.Session(trace=trace.id, first_step=trace.steps, environment=environment))
        with storage_errors(folder):
            for leftover in folder.glob(f"*{f.TEMPORARY}"):
                leftover.unlink()
            write_whole(folder / f.session_name(len(trace.sessions) + 1), content)
        writer._sessions = [*trace.session_digests, digest]
        if trace.steps:
            writer._start(trace.steps, state)
        return writer

    @property
    def steps(self) -> int:
        """Steps so far."""
        return self._first + len(self._waiting)

    def append(self, leaf: bytes | PendingLeaf, batch: Batch | None, state: Callable[[], State]) -> None:
        """Adds a step; `batch` where its rows are to be written down, `state` gives the State after it.

        Of leaves on their way `UNFINISHED` may be unfinished; none is when a chunk is written.
        """
        self._waiting.append((leaf, batch))
        if len(self._waiting) > UNFINISHED:
            earlier, rows = self._waiting[-1 - UNFINISHED]
            self._waiting[-1 - UNFINISHED] = (_finished(earlier), rows)
        due = self.steps % self.manifest.checkpoint_every == 0
        if due or len(self._waiting) >= self.manifest.chunk_steps:
            self._write()
            self._start(self.steps, state())

    def flush(self) -> None:
        """Writes the open chunk, if it has any steps; nothing can be added afterwards."""
        if self._waiting:
            self._write()

    def rescue(self) -> None:
        """The same after something went wrong: up to the first leaf that cannot be finished."""
        whole: list[tuple[bytes | PendingLeaf, Batch | None]] = []
        for leaf, batch in self._waiting:
            try:
                whole.append((_finished(leaf), batch))
            except Exception:
                break
        self._waiting = whole
        self.flush()

    def seal(self, final: State) -> str:
        """Finishes the trace and returns its step root."""
        steps = self.steps
        self.flush()
        seal = f.Seal(
            trace=self.trace_id,
            steps=steps,
            chunks=self._chunks,
            sessions=self._sessions,
            step_root=self._tree.root().hex(),
            data_root=self.manifest.data.root,
            final_state=final.digest().hex(),
        )
        with storage_errors(self._folder):
            write_whole(self._folder / f.SEAL, f.dump(seal)[0])
        return seal.step_root

    def _start(self, first: int, state: State) -> None:
        """Begins a chunk before step `first`."""
        self._first, self._waiting = first, []
        self._before = state.digest().hex()
        stored = first % self.manifest.checkpoint_every == 0
        self._keyframe = Buffer.of(state.tensors) if stored else None

    def _write(self) -> None:
        header = f.ExactChunkHeader(
            trace=self.trace_id,
            index=len(self._chunks),
            previous=self._chunks[-1] if self._chunks else f.NO_DIGEST,
            first_step=self._first,
            state=self._before,
            tensors=None if self._keyframe is None else self._keyframe.layout.table(),
        )
        keyframe = None if self._keyframe is None else [encode(self._keyframe, EMPTY)]
        leaves, batches = (
            [_finished(leaf) for leaf, _ in self._waiting],
            [_written(b) for _, b in self._waiting if b is not None],
        )
        with storage_errors(self._folder):
            chunk = ChunkWriter(self._folder / f.chunk_name(header.index), header, keyframe, EXACT_MAGIC)
            try:
                chunk.record(b"L", b"".join(leaves))
                if batches:
                    rows = f.ExactBatches(steps=batches).model_dump_json(exclude_defaults=True)
                    chunk.record(b"R", zstandard.ZstdCompressor(level=12).compress(rows.encode()))
                self._chunks.append(chunk.finish().hex())
            except OSError:
                chunk.abandon()
                raise
        for leaf in leaves:
            self._tree.append(leaf)


def _finished(leaf: bytes | PendingLeaf) -> bytes:
    return leaf if isinstance(leaf, bytes) else leaf.result()


def _written(batch: Batch) -> f.ExactBatch:
    carried = {str(k): base64.b64encode(row).decode() for k, row in sorted(batch.carried.items())}
    return f.ExactBatch(epoch=batch.epoch, rows=[list(micro) for micro in batch.rows], carried=carried)

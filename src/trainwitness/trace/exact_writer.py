"""ExactWriter: puts the leaves of an exact run on disk."""

from __future__ import annotations

import base64
from collections.abc import Callable
from pathlib import Path

import zstandard

from trainwitness.commitments.merkle import Frontier
from trainwitness.core.batch import Batch
from trainwitness.core.environment import Environment
from trainwitness.core.state import State
from trainwitness.trace import format as f
from trainwitness.trace.chunk import EXACT_MAGIC, ChunkWriter
from trainwitness.trace.codec import encode
from trainwitness.trace.exact_reader import ExactTrace
from trainwitness.trace.layout import EMPTY, Buffer
from trainwitness.trace.writer import storage_errors, write_whole


class ExactWriter:
    """Collects leaves until a chunk is full; a chunk that begins at a checkpoint holds the State there."""

    def __init__(self, folder: Path, manifest: f.Manifest, trace_id: str, initial: State) -> None:
        self.manifest, self.trace_id = manifest, trace_id
        self._folder = folder
        self._chunks: list[str] = []
        self._sessions: list[str] = []
        self._steps = 0
        self._leaves: list[bytes] = []
        self._batches: list[f.ExactBatch] = []
        self._before = ""
        self._keyframe: Buffer | None = None
        self._tree = Frontier([f.initial_leaf(initial.digest().hex())])
        self._start(initial, stored=manifest.initialisation != "portable")

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
        writer._steps, writer._chunks = trace.steps, list(trace.chunk_digests)
        content, digest = f.dump(f.Session(trace=trace.id, first_step=trace.steps, environment=environment))
        with storage_errors(folder):
            for leftover in folder.glob(f"*{f.TEMPORARY}"):
                leftover.unlink()
            write_whole(folder / f.session_name(len(trace.sessions) + 1), content)
        writer._sessions = [*trace.session_digests, digest]
        writer._start(state, stored=writer._steps % trace.manifest.checkpoint_every == 0)
        return writer

    def append(self, leaf: bytes, batch: Batch | None, state: Callable[[], State]) -> None:
        """Adds a step; `batch` where its rows are to be written down, `state` gives the State after it."""
        self._leaves.append(leaf)
        self._tree.append(leaf)
        if batch is not None:
            self._batches.append(_written(batch))
        self._steps += 1
        due = self._steps % self.manifest.checkpoint_every == 0
        if due or len(self._leaves) >= self.manifest.chunk_steps:
            self.flush()
            self._start(state(), stored=due)

    def flush(self) -> None:
        """Writes the open chunk, if it has any steps."""
        if not self._leaves:
            return
        header = f.ExactChunkHeader(
            trace=self.trace_id,
            index=len(self._chunks),
            previous=self._chunks[-1] if self._chunks else f.NO_DIGEST,
            first_step=self._steps - len(self._leaves),
            state=self._before,
            tensors=None if self._keyframe is None else self._keyframe.layout.table(),
        )
        keyframe = None if self._keyframe is None else [encode(self._keyframe, EMPTY)]
        with storage_errors(self._folder):
            chunk = ChunkWriter(self._folder / f.chunk_name(header.index), header, keyframe, EXACT_MAGIC)
            try:
                chunk.record(b"L", b"".join(self._leaves))
                if self._batches:
                    rows = f.ExactBatches(steps=self._batches).model_dump_json(exclude_defaults=True)
                    chunk.record(b"R", zstandard.ZstdCompressor(level=12).compress(rows.encode()))
                self._chunks.append(chunk.finish().hex())
            except OSError:
                chunk.abandon()
                raise
        self._leaves, self._batches = [], []

    def seal(self, final: State) -> str:
        """Finishes the trace and returns its step root."""
        self.flush()
        seal = f.Seal(
            trace=self.trace_id,
            steps=self._steps,
            chunks=self._chunks,
            sessions=self._sessions,
            step_root=self._tree.root().hex(),
            data_root=self.manifest.data.root,
            final_state=final.digest().hex(),
        )
        with storage_errors(self._folder):
            write_whole(self._folder / f.SEAL, f.dump(seal)[0])
        return seal.step_root

    def _start(self, state: State, *, stored: bool) -> None:
        self._leaves, self._batches = [], []
        self._before = state.digest().hex()
        self._keyframe = Buffer.of(state.tensors) if stored else None


def _written(batch: Batch) -> f.ExactBatch:
    carried = {str(k): base64.b64encode(row).decode() for k, row in sorted(batch.carried.items())}
    return f.ExactBatch(epoch=batch.epoch, rows=[list(micro) for micro in batch.rows], carried=carried)

"""ExactTrace: a trace of exact arithmetic, which keeps a digest of every step in place of its State."""

from __future__ import annotations

import bisect
import functools
from collections.abc import Iterator
from typing import ClassVar, NamedTuple, NoReturn

from trainwitness.commitments.merkle import Frontier
from trainwitness.core.batch import Batch
from trainwitness.core.errors import TraceDamaged, UsageError
from trainwitness.core.state import State
from trainwitness.trace import format as f
from trainwitness.trace.chunk import ExactChunkReader, Frame, RecordReader
from trainwitness.trace.codec import decode
from trainwitness.trace.layout import EMPTY, Layout
from trainwitness.trace.reader import Checked, Progress, Trace
from trainwitness.trace.rows import stored_batch
from trainwitness.trace.segments import Segment, check_state


class ExactStep(NamedTuple):
    """One step as stored."""

    step: int
    leaf: bytes
    batch: Batch | None
    """The rows, where they are written down; otherwise the task's schedule gives them."""
    before: str | None
    """Digest of the State before it, where a chunk begins."""


class ExactTrace(Trace):
    """A recorded exact run. There are no States to be read but sparse checkpoints; a verifier computes them."""

    KIND: ClassVar[type[RecordReader]] = ExactChunkReader

    @functools.cached_property
    def steps(self) -> int:
        """Steps that can be read."""
        if self.seal:
            return self.seal.steps
        if not self.chunks:
            return 0
        with self._open_chunk(ExactChunkReader, self.chunks - 1) as chunk:
            return chunk.header.first_step + len(chunk.leaves())

    def exact_steps(self, start: int = 0, stop: int | None = None) -> Iterator[ExactStep]:
        """Steps `start` to `stop` - 1; without `stop`, everything up to the last byte."""
        last = self.steps if stop is None else stop
        if not 0 <= start <= last <= self.steps:
            raise UsageError(f"steps {start}:{last} of a trace of {self.steps} steps")
        expected = None
        for index in range(self._chunk_of(start), self.chunks):
            with self._open_chunk(ExactChunkReader, index) as chunk:
                leaves, batches, first = chunk.leaves(), chunk.batches(), chunk.header.first_step
                if expected not in (None, first):
                    raise TraceDamaged(f"{chunk.name}: begins with step {first}, not {expected}")
                expected = first + len(leaves)
                for number, leaf in enumerate(leaves):
                    step = first + number
                    if stop is not None and step >= stop:
                        return
                    if step >= start:
                        batch = None if batches is None else stored_batch(step, batches[number])
                        yield ExactStep(step, leaf, batch, None if number else chunk.header.state)
        if (expected or 0) != self.steps:
            raise TraceDamaged(f"{self.path}: {expected} steps, the seal states {self.steps}")

    def checkpoint(self, step: int) -> tuple[int, State | None]:
        """The nearest State at or before `step`, and its step; (0, None) where that is the one the seed gives."""
        for index in range(self._chunk_of(step), -1, -1):
            state = self._stored(index)
            if state is not None:
                return self._first_steps[index], state
        return 0, None

    def next_checkpoint(self, step: int) -> int | None:
        """The first step after `step` whose State before it is stored."""
        for index in range(self._chunk_of(step) + 1, self.chunks):
            with self._open_chunk(ExactChunkReader, index, check=False) as chunk:
                if chunk.header.tensors is not None:
                    return chunk.header.first_step
        return None

    def initial_digest(self) -> str:
        """Digest of the State the first step starts from."""
        if not self.chunks:
            raise TraceDamaged(f"{self.path}: no whole chunk was written")
        with self._open_chunk(ExactChunkReader, 0) as chunk:
            return chunk.header.state

    def initial_parameters(self) -> int:
        """How many parameters the trace says the model has."""
        return self.manifest.parameters

    def check(self, progress: Progress | None = None) -> Checked:
        """Reads everything and compares every digest that can be compared without computing."""
        tree, steps, carried, held = Frontier(), 0, 0, State({})
        if self.chunks:
            tree.append(f.initial_leaf(self.initial_digest()))
            held = next((state for k in range(self.chunks) if (state := self._stored(k)) is not None), held)
            for index in range(self.chunks):
                self._stored(index)
        for step in self.exact_steps():
            tree.append(step.leaf)
            steps += 1
            carried += len(step.batch.carried) if step.batch else 0
            if progress:
                progress(1)
        final = self.seal.final_state if self.seal else None
        self.check_seal(steps, tree.root().hex(), final)
        return Checked(
            steps=steps,
            step_root=tree.root().hex(),
            initial_state=self.initial_digest() if self.chunks else None,
            final_state=final,
            carried_rows=carried,
            stored_bytes=self._size(),
            state_bytes=held.nbytes,
            parameter_bytes=8 * self.manifest.parameters,
        )

    def segments(self, start: int = 0, stop: int | None = None) -> Iterator[Segment]:  # noqa: ARG002
        _no_states()

    def frames(self) -> Iterator[Frame]:
        _no_states()

    def initial_state(self) -> State:
        _no_states()

    def final_state(self) -> State:
        _no_states()

    def _chunk_of(self, step: int) -> int:
        return max(bisect.bisect_right(self._first_steps, step) - 1, 0)

    def _stored(self, index: int) -> State | None:
        with self._open_chunk(ExactChunkReader, index) as chunk:
            data, table = chunk.keyframe(), chunk.header.tensors
            if data is None or table is None:
                return None
            where = f"{chunk.name} (keyframe)"
            buffer = decode(data, Layout.from_table(table, where), EMPTY, where)
            check_state(buffer, chunk.header.state, where)
            return buffer.state()


def _no_states() -> NoReturn:
    raise UsageError("a trace of exact arithmetic keeps digests of its States, not the States", hint="use verify")

"""Trace: reading what was recorded. Every byte is checked against a digest before it is used."""

from __future__ import annotations

import bisect
import contextlib
import functools
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, TypeVar

from trainwitness.commitments.merkle import Frontier
from trainwitness.core.errors import TraceDamaged, UsageError
from trainwitness.core.state import State
from trainwitness.trace import format as f
from trainwitness.trace.chunk import ChunkReader, Frame, RecordReader
from trainwitness.trace.layout import Layout
from trainwitness.trace.segments import Segment, decoded, keyframe
from trainwitness.trace.store import Store, open_store, read_all

Progress = Callable[[int], None]
Kind = TypeVar("Kind", bound=RecordReader)


@dataclass(frozen=True)
class Checked:
    """What a complete reading established."""

    steps: int
    step_root: str
    initial_state: str | None
    final_state: str | None
    carried_rows: int
    stored_bytes: int
    state_bytes: int
    parameter_bytes: int


class Trace:
    """A recorded run, opened for reading.

    Opening reads the manifest and the seal; chunks are read, one at a time, when their steps are asked for.
    An unsealed (interrupted) trace opens up to its last whole chunk.

    >>> trace = Trace.open(Path("run.trace"))                                    # doctest: +SKIP
    >>> for segment in trace.segments(): print(segment.records[0].step)          # doctest: +SKIP
    """

    KIND: ClassVar[type[RecordReader]] = ChunkReader

    def __init__(self, path: Path, store: Store) -> None:
        self.path, self._store = path, store
        names = store.names()
        if f.MANIFEST not in names:
            raise TraceDamaged(f"{path}: no {f.MANIFEST}: not a trace", hint="name a trace folder or a packed trace")
        self.manifest, self.id = _manifest(store)
        self.seal = self._load_seal() if f.SEAL in names else None
        self.chunks = _contiguous(names, f.chunk_name, 0)
        self.sessions, self.session_digests = self._load_sessions(_contiguous(names, f.session_name, 1))
        if self.seal and self.chunks != len(self.seal.chunks):
            raise TraceDamaged(f"{path}: {self.chunks} chunks, the seal names {len(self.seal.chunks)}")
        self._first_steps: list[int] = []
        self.chunk_digests: list[str] = []
        self._index()

    @classmethod
    def open(cls, path: Path | str) -> Trace:
        """Opens a trace folder or packed trace; one of exact arithmetic as an `ExactTrace`."""
        from trainwitness.trace.exact_reader import ExactTrace  # it builds upon this class

        store = open_store(Path(path))
        exact = f.MANIFEST in store.names() and _manifest(store)[0].format == f.EXACT_FORMAT
        return (ExactTrace if exact else cls)(Path(path), store)

    @property
    def sealed(self) -> bool:
        """Whether the recording was finished."""
        return self.seal is not None

    @functools.cached_property
    def steps(self) -> int:
        """Steps that can be read."""
        if self.seal:
            return self.seal.steps
        if not self.chunks:
            return 0
        with self._chunk(self.chunks - 1) as chunk:
            return chunk.header.first_step + sum(1 for _ in chunk.frames())

    def frames(self) -> Iterator[Frame]:
        """Every step as stored, without decoding States."""
        for index in range(self.chunks):
            with self._chunk(index) as chunk:
                yield from chunk.frames()

    def segments(self, start: int = 0, stop: int | None = None) -> Iterator[Segment]:
        """The segments that contain steps `start` to `stop` - 1; without `stop`, everything up to the last byte."""
        last = self.steps if stop is None else stop
        if not 0 <= start <= last <= self.steps:
            raise UsageError(f"steps {start}:{last} of a trace of {self.steps} steps")
        if start == last:
            return
        last_state: str | None = None
        expected: int | None = None
        first = bisect.bisect_right(self._first_steps, start) - 1
        behind = self.chunks if stop is None else bisect.bisect_left(self._first_steps, stop)
        for index in range(first, behind):
            with self._chunk(index) as chunk:
                if expected not in (None, chunk.header.first_step):
                    raise TraceDamaged(f"{chunk.name}: begins with step {chunk.header.first_step}, not {expected}")
                for segment in decoded(chunk, last_state):
                    if stop is not None and segment.records[0].step >= stop:
                        return
                    if segment.records[-1].step >= start:
                        yield segment
                    last_state, expected = segment.records[-1].state, segment.records[-1].step + 1
        if stop is None and expected != self.steps:
            raise TraceDamaged(f"{self.path}: {expected} steps, the seal states {self.steps}")

    def initial_state(self) -> State:
        """The State the first step starts from."""
        if not self.chunks:
            raise TraceDamaged(f"{self.path}: no whole chunk was written")
        with self._chunk(0) as chunk:
            return keyframe(chunk).state()

    def initial_parameters(self) -> int:
        """How many parameters the first State is said to have; nothing is decoded."""
        if not self.chunks:
            return 0
        with self._chunk(0, check=False) as chunk:
            layout = Layout.from_table(chunk.header.tensors, chunk.name)
        return sum(info.elements for info in layout.infos if info.name.startswith("param/"))

    def final_state(self) -> State:
        """The last State."""
        state = None
        for segment in self.segments(max(self.steps - 1, 0)):
            state = segment.after
        return self.initial_state() if state is None else state

    def check(self, progress: Progress | None = None) -> Checked:
        """Reads everything, decodes every State and compares every digest; raises TraceDamaged otherwise."""
        tree, steps, carried, initial, final = Frontier(), 0, 0, None, None
        state = State({})
        if self.chunks:
            with self._chunk(0) as chunk:
                initial = final = chunk.header.state
            tree.append(f.initial_leaf(initial))
            state = self.initial_state()
        for segment in self.segments():
            for leaf, batch in zip(segment.leaves, segment.batches, strict=True):
                tree.append(leaf)
                carried += len(batch.carried)
            steps += len(segment.records)
            final, state = segment.records[-1].state, segment.after
            if progress:
                progress(len(segment.records))
        self.check_seal(steps, tree.root().hex(), final)
        return Checked(
            steps=steps,
            step_root=tree.root().hex(),
            initial_state=initial,
            final_state=final,
            carried_rows=carried,
            stored_bytes=self._size(),
            state_bytes=state.nbytes,
            parameter_bytes=state.parameter_bytes,
        )

    def check_seal(self, steps: int, root: str, final: str | None) -> None:
        """Compares what a complete reading found with what the seal states."""
        if not self.seal:
            return
        found = (steps, root, final, self.manifest.data.root)
        stated = (self.seal.steps, self.seal.step_root, self.seal.final_state, self.seal.data_root)
        for name, one, other in zip(("steps", "step root", "final State", "data root"), found, stated, strict=True):
            if one != other:
                raise TraceDamaged(f"{f.SEAL}: {name} {other}, the trace has {one}")

    def _size(self) -> int:
        total = 0
        for name in self._store.names():
            with self._store.open(name) as file:
                total += file.seek(0, 2)
        return total

    def _load_seal(self) -> f.Seal:
        seal, _ = f.load(f.Seal, read_all(self._store, f.SEAL), f.SEAL)
        if seal.trace != self.id:
            raise TraceDamaged(f"{f.SEAL}: seals trace {seal.trace}, the manifest is {self.id}")
        return seal

    def _load_sessions(self, count: int) -> tuple[list[f.Session], list[str]]:
        loaded = [f.load(f.Session, read_all(self._store, n), n) for n in map(f.session_name, range(1, count + 1))]
        for number, (session, _) in enumerate(loaded, start=1):
            if session.trace != self.id:
                raise TraceDamaged(f"{f.session_name(number)}: of trace {session.trace}, the manifest is {self.id}")
        digests = [digest for _, digest in loaded]
        if self.seal and digests != self.seal.sessions:
            raise TraceDamaged(f"{self.path}: the sessions are not those the seal names")
        return [session for session, _ in loaded], digests

    def _index(self) -> None:
        """Each chunk's first step and stated digest; the digest is checked when the chunk is read."""
        previous = f.NO_DIGEST
        for number in range(self.chunks):
            with self._open_chunk(self.KIND, number, check=False) as chunk:
                if chunk.header.previous != previous:
                    raise TraceDamaged(f"{chunk.name}: follows chunk {chunk.header.previous}, not {previous}")
                self._first_steps.append(chunk.header.first_step)
                previous = chunk.digest.hex()
                self.chunk_digests.append(previous)
        first = self._first_steps
        if first[:1] not in ([], [0]) or any(a >= b for a, b in itertools.pairwise(first)):
            raise TraceDamaged(f"{self.path}: the chunks begin with steps {first[:10]}")

    def _chunk(self, index: int, *, check: bool = True) -> contextlib.AbstractContextManager[ChunkReader]:
        return self._open_chunk(ChunkReader, index, check=check)

    @contextlib.contextmanager
    def _open_chunk(self, kind: type[Kind], index: int, *, check: bool = True) -> Iterator[Kind]:
        name = f.chunk_name(index)
        with self._store.open(name) as file:
            chunk = kind(file, name, check=check)
            header = chunk.header
            if (header.trace, header.index) != (self.id, index):
                raise TraceDamaged(f"{name}: is chunk {header.index} of trace {header.trace}, not of this one")
            if self.seal and chunk.digest.hex() != self.seal.chunks[index]:
                raise TraceDamaged(f"{name}: not the chunk the seal names")
            yield chunk


def _manifest(store: Store) -> tuple[f.Manifest, str]:
    return f.load(f.Manifest, read_all(store, f.MANIFEST), f.MANIFEST)


def _contiguous(names: set[str], name_of: Callable[[int], str], first: int) -> int:
    """How many of the numbered files there are; refuses gaps."""
    prefix = name_of(first).split("-")[0]
    wanted = [name for name in names if name.startswith(prefix + "-")]
    for index in range(first, first + len(wanted)):
        if name_of(index) not in names:
            raise TraceDamaged(f"{name_of(index)}: missing, though later ones are there")
    return len(wanted)

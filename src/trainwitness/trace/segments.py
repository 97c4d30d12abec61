"""Segment: what lies between two stored States, decoded from a chunk and checked."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass

from trainwitness.core.batch import Batch
from trainwitness.core.errors import TraceDamaged
from trainwitness.core.state import State
from trainwitness.trace.chunk import ChunkReader
from trainwitness.trace.codec import decode
from trainwitness.trace.format import StepRecord
from trainwitness.trace.layout import EMPTY, Buffer, Layout
from trainwitness.trace.rows import record_batch


@dataclass(frozen=True)
class Segment:
    """From one stored State to the next: one step, or K steps with `checkpoint_every=K`."""

    before: State
    records: tuple[StepRecord, ...]
    leaves: tuple[bytes, ...]
    """The records as stored, under the step root."""
    after: State

    @functools.cached_property
    def batches(self) -> tuple[Batch, ...]:
        """The batches of these steps."""
        return tuple(record_batch(record) for record in self.records)


def keyframe(chunk: ChunkReader) -> Buffer:
    where = f"{chunk.name} (keyframe)"
    buffer = decode(chunk.keyframe(), Layout.from_table(chunk.header.tensors, where), EMPTY, where)
    check_state(buffer, chunk.header.state, where)
    return buffer


def decoded(chunk: ChunkReader, last_state: str | None) -> Iterator[Segment]:
    """The segments of one chunk; `last_state` is the digest the chunk before ended with, if it was read."""
    if last_state not in (None, chunk.header.state):
        raise TraceDamaged(f"{chunk.name}: does not begin with the State the chunk before ended with")
    current, expected = keyframe(chunk), chunk.header.first_step
    layout, records, leaves = current.layout, [], []
    for frame in chunk.frames():
        record, where = frame.record, f"{frame.where} (step {frame.record.step})"
        if record.step != expected:
            raise TraceDamaged(f"{where}: step {expected} belongs here")
        if record.tensors is not None:
            layout = Layout.from_table(record.tensors, where)
            if record.state is None or layout == current.layout:
                raise TraceDamaged(f"{where}: a table of tensors belongs to a State whose table is new")
        if (record.state is None) != (not frame.data):
            raise TraceDamaged(f"{where}: a State and its digest go together")
        expected += 1
        records.append(record)
        leaves.append(frame.leaf)
        if record.state is not None:
            following = decode(frame.data, layout, current, where, rate=record.predict)
            check_state(following, record.state, where)
            yield Segment(current.state(), tuple(records), tuple(leaves), following.state())
            current, records, leaves = following, [], []
    if records or expected == chunk.header.first_step:
        raise TraceDamaged(f"{chunk.name}: ends without the State of its last step")


def check_state(buffer: Buffer, stated: str, where: str) -> None:
    """Refuses a State that is not the one whose digest is stated."""
    if buffer.state().digest().hex() != stated:
        raise TraceDamaged(f"{where}: the State does not have the digest the record states")

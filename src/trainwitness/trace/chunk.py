"""A chunk: a keyframe State and one frame per step, under one digest. docs/trace-format.md, section 4.

8 bytes magic | records | 32 bytes SHA-256 of all bytes before
record: u8 kind | u64 length | payload       kinds, in this order: H header, K keyframe, S step (any number)
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

import zstandard

from trainwitness.core.errors import TraceDamaged
from trainwitness.core.files import sync_folder
from trainwitness.trace.codec import decompress
from trainwitness.trace.format import (
    LEAF_BYTES,
    MAX_JSON_BYTES,
    MAX_STATE_BYTES,
    TEMPORARY,
    ChunkHeader,
    ExactBatch,
    ExactBatches,
    ExactChunkHeader,
    StepRecord,
    parse,
)

MAGIC, EXACT_MAGIC = b"TWCHUNK\x01", b"TWCHUNK\x02"
DIGEST_BYTES = 32
_HEAD = struct.Struct("<cQ")
_LENGTH = struct.Struct("<I")


class Frame(NamedTuple):
    """A step as stored: its record, the record's bytes (the leaf) and the encoded State (empty if not kept)."""

    record: StepRecord
    leaf: bytes
    data: bytes
    where: str


class ChunkWriter:
    """Writes a chunk under a temporary name; `finish` makes it appear whole, or it never does."""

    def __init__(
        self,
        path: Path,
        header: ChunkHeader | ExactChunkHeader,
        keyframe: list[bytes] | None,
        magic: bytes = MAGIC,
    ) -> None:
        self.header = header
        self.steps = 0
        self._path, self._temporary = path, path.with_suffix(TEMPORARY)
        self._sha = hashlib.sha256()
        self._file = self._temporary.open("wb", buffering=1 << 20)
        try:
            self._write(magic)
            self.record(b"H", header.model_dump_json().encode())
            if keyframe is not None:
                self.record(b"K", *keyframe)
        except OSError:
            self.abandon()
            raise

    def append(self, leaf: bytes, data: list[bytes]) -> None:
        """Adds a step."""
        record = zstandard.ZstdCompressor(level=1).compress(leaf)
        self.record(b"S", _LENGTH.pack(len(record)), record, *data)
        self.steps += 1

    def finish(self) -> bytes:
        """Flushes to disk, renames into place and returns the chunk's digest."""
        digest = self._sha.digest()
        self._file.write(digest)
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        self._temporary.rename(self._path)
        sync_folder(self._path.parent)
        return digest

    def abandon(self) -> None:
        """Drops what was written."""
        with contextlib.suppress(OSError):  # closing flushes, which a full disk refuses
            self._file.close()
        with contextlib.suppress(OSError):
            self._temporary.unlink(missing_ok=True)

    def record(self, kind: bytes, *parts: bytes) -> None:
        """Adds a record of one kind."""
        self._write(_HEAD.pack(kind, sum(map(len, parts))))
        for part in parts:
            self._write(part)

    def _write(self, data: bytes) -> None:
        self._file.write(data)
        self._sha.update(data)


class RecordReader:
    """Reads a chunk's records in order. With `check`, the digest over all its bytes is checked first.

    Without it only the header and the stated `digest` are to be used, and only to find the way.
    """

    MAGIC = MAGIC
    header: ChunkHeader | ExactChunkHeader

    def __init__(self, file: BinaryIO, name: str, *, check: bool = True) -> None:
        self.name = name
        self._file = file
        stated = _check_digest if check else _stated_digest
        self._end, self.digest = stated(file, name, self.MAGIC)
        file.seek(len(MAGIC))
        self._header = self._next(b"H")
        self._body = file.tell()

    def _next(self, wanted: bytes) -> bytes:
        where, left = self._where(), self._end - self._file.tell()
        head = self._file.read(min(_HEAD.size, max(left, 0)))
        if len(head) < _HEAD.size:
            raise TraceDamaged(f"{where}: the chunk ends inside a record")
        kind, length = _HEAD.unpack(head)
        if kind != wanted:
            raise TraceDamaged(f"{where}: a record of kind {kind!r} where {wanted!r} belongs")
        limit = MAX_JSON_BYTES if kind == b"H" else MAX_STATE_BYTES
        if length > min(left - _HEAD.size, limit):
            raise TraceDamaged(f"{where}: a record of {length} bytes passes the end of the chunk, or the limit")
        try:
            payload = self._file.read(length)
        except MemoryError as error:
            raise TraceDamaged(f"{where}: a record of {length} bytes does not fit into memory") from error
        if len(payload) != length:
            raise TraceDamaged(f"{where}: the file ends inside a record")
        return payload

    def _where(self) -> str:
        return f"{self.name}, offset {self._file.tell()}"


class ChunkReader(RecordReader):
    """Reads a chunk of States, one frame at a time."""

    header: ChunkHeader

    def __init__(self, file: BinaryIO, name: str, *, check: bool = True) -> None:
        super().__init__(file, name, check=check)
        self.header = parse(ChunkHeader, self._header, self._where())

    def keyframe(self) -> bytes:
        """The encoded State the chunk begins with."""
        self._file.seek(self._body)
        return self._next(b"K")

    def frames(self) -> Iterator[Frame]:
        """Every step, in order."""
        self.keyframe()
        while self._file.tell() < self._end:
            where = self._where()
            payload = self._next(b"S")
            cut = _LENGTH.size + _LENGTH.unpack_from(payload)[0] if len(payload) >= _LENGTH.size else 1 << 62
            if cut > len(payload):
                raise TraceDamaged(f"{where}: the record is longer than its frame")
            leaf = decompress(payload[_LENGTH.size : cut], None, where)
            yield Frame(parse(StepRecord, leaf, where), leaf, payload[cut:], where)


class ExactChunkReader(RecordReader):
    """Reads a chunk of an exact trace: a State or none, then the leaves, then the rows or none."""

    MAGIC = EXACT_MAGIC
    header: ExactChunkHeader

    def __init__(self, file: BinaryIO, name: str, *, check: bool = True) -> None:
        super().__init__(file, name, check=check)
        self.header = parse(ExactChunkHeader, self._header, self._where())

    def keyframe(self) -> bytes | None:
        """The encoded State before the first step, where it is stored."""
        self._file.seek(self._body)
        return None if self.header.tensors is None else self._next(b"K")

    def leaves(self) -> list[bytes]:
        """Every step's leaf."""
        self.keyframe()
        joined = self._next(b"L")
        if not joined or len(joined) % LEAF_BYTES:
            raise TraceDamaged(f"{self.name}: {len(joined)} bytes of leaves of {LEAF_BYTES}")
        return [joined[at : at + LEAF_BYTES] for at in range(0, len(joined), LEAF_BYTES)]

    def batches(self) -> list[ExactBatch] | None:
        """Every step's rows, where they are written down."""
        leaves = self.leaves()
        if self._file.tell() == self._end:
            return None
        where = self._where()
        found = parse(ExactBatches, decompress(self._next(b"R"), None, where), where).steps
        if len(found) != len(leaves) or self._file.tell() != self._end:
            raise TraceDamaged(f"{where}: rows of {len(found)} steps, leaves of {len(leaves)}")
        return found


def _stated_digest(file: BinaryIO, name: str, magic: bytes) -> tuple[int, bytes]:
    """Where the records end, and the digest that stands there."""
    end = file.seek(0, os.SEEK_END) - DIGEST_BYTES
    file.seek(0)
    if end < len(magic) or file.read(len(magic)) != magic:
        raise TraceDamaged(f"{name}, offset 0: not a chunk of trace format {magic[-1]}")
    file.seek(end)
    return end, file.read(DIGEST_BYTES)


def _check_digest(file: BinaryIO, name: str, magic: bytes) -> tuple[int, bytes]:
    """The same, once the file's bytes are seen to have it."""
    end, digest = _stated_digest(file, name, magic)
    file.seek(0)
    sha, left = hashlib.sha256(), end
    while left > 0 and (data := file.read(min(left, 1 << 20))):
        sha.update(data)
        left -= len(data)
    if left or sha.digest() != digest:
        raise TraceDamaged(f"{name}, offset {end}: its bytes do not have the digest it states: truncated or altered")
    return end, digest

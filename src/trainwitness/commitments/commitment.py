"""Commitment: which rows, fixed by two roots in a file of a few hundred bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, BinaryIO, Literal

from pydantic import Field

from trainwitness.commitments.keyed import KeyedDigests, key_digest
from trainwitness.commitments.merkle import Frontier, leaf_hashes, prefixed
from trainwitness.core.errors import EvidenceDamaged, UsageError
from trainwitness.core.files import read_evidence, refuse_existing, storage_errors, whole_file, write_whole
from trainwitness.core.records import Digest, Record, dump, load
from trainwitness.core.seeds import derive

FORMAT: Literal["trainwitness/commitment/1"] = "trainwitness/commitment/1"
HASH_BYTES = 32
MIN_NONCE, MAX_NONCE = 16, 1024


class DataFacts(Record):
    """The data set the rows come from: an RFC 6962 root over the canonical bytes of every row."""

    name: str
    rows: Annotated[int, Field(ge=0)]
    row_schema: str
    root: Digest


class SortedFacts(Record):
    """The second tree, over the rows' keyed digests in ascending order (`keyed.py`)."""

    root: Digest
    key: Digest
    """Fixes the owner's key without telling it."""


class Commitment(Record):
    """What an owner publishes before training. Its digest covers all of it; nonces and timestamps speak of that."""

    format: Literal["trainwitness/commitment/1"] = FORMAT
    data: DataFacts
    sorted: SortedFacts | None = None

    @property
    def digest(self) -> str:
        """SHA-256 in the commitment's file."""
        return dump(self)[1]


@dataclass(frozen=True)
class Rows:
    """Rows to commit to, read as often as needed: `iterate()` gives canonical bytes in order."""

    name: str
    schema: str
    iterate: Callable[[], Iterator[bytes]]
    count: int | None = None
    """If it is known beforehand."""
    blocks: Callable[[], Iterator[list[bytes]]] | None = None
    """The same rows in lists, each after the byte 0x00: where they come like that, hashing need not copy them."""

    def leaves(self) -> Iterator[list[bytes]]:
        """The rows as the tree's leaves with their prefix, many at a time."""
        return prefixed(self.iterate()) if self.blocks is None else self.blocks()


@dataclass(frozen=True)
class Committed:
    """A commitment with what a verifier holds besides: the nonce given for it, its leaf hashes, the owner's key."""

    commitment: Commitment
    nonce: str | None = None
    leaves: Path | None = None
    key: bytes | None = None


def commit(
    rows: Rows,
    *,
    key: bytes | None = None,
    leaves: BinaryIO | None = None,
    on_rows: Callable[[int], None] | None = None,
) -> Commitment:
    """Hashes every row once. Memory is constant, but for some 120 bytes a row where a `key` asks for the sorted tree.

    >>> commit(Rows("toy", "utf8", lambda: iter([b"a", b"b"]))).data.rows
    2
    """
    tree = Frontier()
    digests = None if key is None else KeyedDigests(key)
    for block in rows.leaves():
        hashes = leaf_hashes(block)
        tree.append_hashes(hashes)
        if leaves is not None:
            leaves.write(b"".join(hashes))
        if digests is not None:
            digests.add(leaf[1:] for leaf in block)
        if on_rows is not None:
            on_rows(len(block))
    if tree.count == 0:
        raise UsageError(f"{rows.name}: no rows to commit to")
    data = DataFacts(name=rows.name, rows=tree.count, row_schema=rows.schema, root=tree.root().hex())
    if digests is None or key is None:
        return Commitment(data=data)
    return Commitment(data=data, sorted=SortedFacts(root=digests.root().hex(), key=key_digest(key)))


def write_commitment(path: Path, make: Callable[[BinaryIO | None], Commitment], leaves: Path | None) -> Commitment:
    """Writes what `make` commits to, and its leaf hashes if wanted; both files appear whole or not at all."""
    for place in (path, leaves):
        if place is not None:
            refuse_existing(place)
    with storage_errors(path, "committing"):
        if leaves is None:
            commitment = make(None)
        else:
            with whole_file(leaves) as file:
                commitment = make(file)
        write_whole(path, dump(commitment)[0])
    return commitment


def read_commitment(path: Path) -> Commitment:
    """The commitment in a file; EvidenceDamaged if it is not one."""
    return parse_commitment(read_evidence(path), str(path))


def parse_commitment(content: bytes, name: str) -> Commitment:
    """The commitment in a file's bytes, which must be the ones this package would write."""
    commitment, digest = load(Commitment, content, name, EvidenceDamaged)
    if commitment.digest != digest:
        raise EvidenceDamaged(f"{name}: not written as commitments are; another program altered its form")
    return commitment


def check_nonce(nonce: str) -> str:
    """A nonce that cannot be guessed, as far as its length tells."""
    if not MIN_NONCE <= len(nonce) <= MAX_NONCE or not nonce.isprintable():
        raise UsageError(
            f"a nonce of {len(nonce)} characters",
            hint=f"take {MIN_NONCE} to {MAX_NONCE} printable ones that nobody could foresee: openssl rand -hex 16",
        )
    return nonce


def bound_seed(commitment: Commitment, nonce: str) -> int:
    """The run's seed for a commitment and a nonce that came after it: `derive(0, "bound", digest, nonce)`.

    Initialisation, order of rows, dropout and augmentation all derive from the run's seed, so none can be chosen.
    """
    return derive(0, "bound", commitment.digest, check_nonce(nonce))

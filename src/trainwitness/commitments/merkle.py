"""The hash tree of RFC 6962, section 2.1, over SHA-256."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator

BLOCK, BLOCK_BYTES = 1024, 1 << 22
"""Leaves hashed together, at most; a power of two."""
EMPTY_ROOT = hashlib.sha256(b"").digest()


def leaf_hash(content: bytes) -> bytes:
    """SHA-256(0x00 || content)."""
    return hashlib.sha256(b"\x00" + content).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """SHA-256(0x01 || left || right)."""
    return hashlib.sha256(b"\x01" + left + right).digest()


class Frontier:
    """A tree that only grows: keeps one root per complete subtree, so memory is logarithmic in the leaves.

    >>> Frontier([b"a", b"b", b"c"]).root() == node_hash(node_hash(leaf_hash(b"a"), leaf_hash(b"b")), leaf_hash(b"c"))
    True
    """

    def __init__(self, contents: Iterable[bytes] = ()) -> None:
        self.count = 0
        self._roots: list[bytes] = []  # of complete subtrees, largest first
        self.extend(contents)

    def append(self, content: bytes) -> None:
        """Adds one leaf."""
        self.append_hash(leaf_hash(content))

    def append_hash(self, root: bytes, size: int = 1) -> None:
        """Adds a leaf by its hash, or a complete subtree of `size` leaves where one may begin."""
        self.count += size
        merged = self.count // size
        # As in binary counting: each trailing zero of the new count merges two subtrees of equal size.
        for _ in range((merged & -merged).bit_length() - 1):
            root = node_hash(self._roots.pop(), root)
        self._roots.append(root)

    def append_hashes(self, hashes: list[bytes]) -> None:
        """Adds many leaves by their hashes, in whole subtrees where they may begin: half the time of one by one."""
        at = 0
        while at < len(hashes):
            aligned = self.count & -self.count or len(hashes)
            size = min(aligned, 1 << (len(hashes) - at).bit_length() - 1)
            self.append_hash(subtree(hashes[at : at + size]), size)
            at += size

    def extend(self, contents: Iterable[bytes]) -> None:
        """Adds many leaves."""
        for block in prefixed(contents):
            self.append_hashes(leaf_hashes(block))

    def root(self) -> bytes:
        """The tree head over all leaves so far."""
        if not self._roots:
            return EMPTY_ROOT
        root = self._roots[-1]
        for left in reversed(self._roots[:-1]):
            root = node_hash(left, root)
        return root


def prefixed(contents: Iterable[bytes]) -> Iterator[list[bytes]]:
    """Leaf contents in lists of bounded size, each after the byte 0x00 that is hashed with it."""
    block: list[bytes] = []
    size = 0
    for content in contents:
        block.append(b"\x00" + content)
        size += len(content)
        if len(block) == BLOCK or size >= BLOCK_BYTES:
            yield block
            block, size = [], 0
    if block:
        yield block


def leaf_hashes(block: list[bytes]) -> list[bytes]:
    """The hashes of leaves that have their prefix."""
    sha = hashlib.sha256
    return [sha(leaf).digest() for leaf in block]


def subtree(level: list[bytes]) -> bytes:
    """The root over a power of two of leaf hashes."""
    sha = hashlib.sha256
    while len(level) > 1:
        pairs = iter(level)
        level = [sha(b"\x01" + left + right).digest() for left, right in zip(pairs, pairs, strict=True)]
    return level[0]

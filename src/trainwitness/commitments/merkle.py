"""The hash tree of RFC 6962, section 2.1, over SHA-256."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

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
        for content in contents:
            self.append(content)

    def append(self, content: bytes) -> None:
        """Adds one leaf."""
        root, self.count = leaf_hash(content), self.count + 1
        # As in binary counting: each trailing zero of the new count merges two subtrees of equal size.
        for _ in range((self.count & -self.count).bit_length() - 1):
            root = node_hash(self._roots.pop(), root)
        self._roots.append(root)

    def root(self) -> bytes:
        """The tree head over all leaves so far."""
        if not self._roots:
            return EMPTY_ROOT
        root = self._roots[-1]
        for left in reversed(self._roots[:-1]):
            root = node_hash(left, root)
        return root

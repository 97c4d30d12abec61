"""Audit paths of RFC 6962, section 2.1.1, and how they are checked (RFC 9162, section 2.1.3.2)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from trainwitness.commitments.merkle import node_hash


class _Subtree(NamedTuple):
    root: bytes
    first: int
    behind: int


class PathFinder:
    """A growing tree that keeps the audit paths of a few leaves, in memory logarithmic in all of them.

    >>> finder = PathFinder([0], [b"a" * 32, b"b" * 32])
    >>> finder.paths[0] == [b"b" * 32], finder.root == node_hash(b"a" * 32, b"b" * 32)
    (True, True)
    """

    def __init__(self, wanted: Iterable[int], hashes: Iterable[bytes]) -> None:
        self.paths: dict[int, list[bytes]] = {index: [] for index in wanted}
        self.leaves: dict[int, bytes] = {}
        self.count = 0
        self._subtrees: list[_Subtree] = []
        for one in hashes:
            self._append(one)
        while len(self._subtrees) > 1:
            self._merge()
        self.root = self._subtrees[0].root if self._subtrees else b""

    def _append(self, leaf: bytes) -> None:
        if self.count in self.paths:
            self.leaves[self.count] = leaf
        self._subtrees.append(_Subtree(leaf, self.count, self.count + 1))
        self.count += 1
        for _ in range((self.count & -self.count).bit_length() - 1):
            self._merge()

    def _merge(self) -> None:
        right, left = self._subtrees.pop(), self._subtrees.pop()
        for index, path in self.paths.items():
            if left.first <= index < left.behind:
                path.append(right.root)
            elif right.first <= index < right.behind:
                path.append(left.root)
        self._subtrees.append(_Subtree(node_hash(left.root, right.root), left.first, right.behind))


def root_of(leaf: bytes, index: int, count: int, path: Sequence[bytes]) -> bytes | None:
    """The root that `path` leads to from leaf `index` of `count`; None if the path cannot be that leaf's."""
    if not 0 <= index < count:
        return None
    at, last, root = index, count - 1, leaf
    for sibling in path:
        if last == 0:
            return None
        if at & 1 or at == last:
            root = node_hash(sibling, root)
            while at & 1 == 0 and at:
                at, last = at >> 1, last >> 1
        else:
            root = node_hash(root, sibling)
        at, last = at >> 1, last >> 1
    return root if last == 0 else None

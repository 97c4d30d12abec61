"""The sorted tree: keyed digests of all rows in ascending order, so that a gap between two shows what is not there.

The digest of a row is HMAC-SHA-256(key, row). The key is the owner's: without it nobody can test guesses about rows
against published digests, and with it anybody can compute the digest of a row that is said to be absent. (A salt per
row could not do that: there is none for a row that is not there.) Leaf: the digest, then the row's number as u64,
big-endian; so rows with equal content have leaves of their own and both trees have the same number of leaves.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable, Iterator

import numpy as np

from trainwitness.commitments.merkle import Frontier

KEY_BYTES = 32
LEAF_BYTES = 40
_KEY_DOMAIN = b"trainwitness/absence-key/v1\0"


def key_digest(key: bytes) -> str:
    """What a commitment says of the key."""
    return hashlib.sha256(_KEY_DOMAIN + key).hexdigest()


def keyed_digest(key: bytes, row: bytes) -> bytes:
    """HMAC-SHA-256(key, row)."""
    return hmac.digest(key, row, "sha256")


class KeyedDigests:
    """Collects the leaves of the sorted tree, 40 bytes a row."""

    def __init__(self, key: bytes) -> None:
        self._keyed = hmac.new(key, digestmod="sha256")
        self._leaves = bytearray()

    def add(self, rows: Iterable[bytes]) -> None:
        """Keeps the digests of the next rows."""
        for number, row in enumerate(rows, start=len(self._leaves) // LEAF_BYTES):
            one = self._keyed.copy()  # with the key hashed already
            one.update(row)
            self._leaves += one.digest() + number.to_bytes(8, "big")

    def leaves(self) -> Iterator[bytes]:
        """All leaves in ascending order."""
        words = np.frombuffer(self._leaves, ">u8").reshape(-1, LEAF_BYTES // 8)
        ordered = words[np.lexsort(words.T[::-1])].tobytes()
        for at in range(0, len(ordered), LEAF_BYTES):
            yield ordered[at : at + LEAF_BYTES]

    def root(self) -> bytes:
        """The tree head over the leaves."""
        return Frontier(self.leaves()).root()

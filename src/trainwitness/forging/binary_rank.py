"""Rank over GF(2) of a bit-packed matrix, by the method of four Russians, eight columns at a time."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
_STRIP = 8


def pack(bits: Bytes) -> Bytes:
    """Rows of zeros and ones, eight to a byte and padded to whole 64-bit words."""
    packed = np.packbits(bits, axis=1)
    return np.pad(packed, ((0, 0), (0, -packed.shape[1] % 8)))


def binary_rank(packed: Bytes) -> int:
    """The rank; `packed` (from `pack`) is overwritten.

    Eight columns are cleared together: their pivots' 256 combinations are laid out as a table, and each row needs
    one of them.
    """
    words, rank = packed.view(np.uint64), 0
    for strip in range(packed.shape[1]):
        if rank == len(packed):
            break
        here = packed[rank:, strip]
        if not here.any():
            continue
        first = strip // 8  # words before this one are zero in the rows that are left
        pivots, needed = _pivots(words[rank:, first:], here.copy())
        table = _combinations(words[rank : rank + pivots, first:])
        words[rank + pivots :, first:] ^= table[needed[pivots:]]
        rank += pivots
    return rank


def _pivots(words: npt.NDArray[np.uint64], column: Bytes) -> tuple[int, Bytes]:
    """Moves the strip's pivot rows to the top, reduced by each other from top to bottom.

    Returns how many there are, and for every row which of them (bit k for the k-th) must be added to clear it.
    """
    needed, found = np.zeros(len(column), np.uint8), 0
    while found < min(_STRIP, len(column)):
        place = int(np.argmax(column[found:] != 0)) + found
        if not column[place]:
            break
        for array in (words, column, needed):
            array[[found, place]] = array[[place, found]]
        for k in range(found):
            if needed[found] >> k & 1:
                words[found] ^= words[k]
        lead = 1 << int(column[found]).bit_length() - 1
        below = slice(found + 1, None)
        hit = (column[below] & lead) != 0
        needed[below] ^= hit.astype(np.uint8) << found
        column[below] ^= hit * column[found]
        found += 1
    return found, needed


def _combinations(rows: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Line c is the sum of the rows whose bits are set in c."""
    table = np.zeros((1, rows.shape[1]), np.uint64)
    for row in rows:
        table = np.concatenate([table, table ^ row])
    return table

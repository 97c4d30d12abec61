"""Bringing a rounded change back into its box by adding short vectors of its lattice."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from trainwitness.forging.reduction import Basis

Reals = npt.NDArray[np.float64]
_MOVES = 2000
_TRIED = 24


def into_box(whole: Reals, left: Basis | None, right: Basis, low: Reals, high: Reals) -> Reals:
    """Adds products of short vectors (single ones without `left`) while that lowers what is outside, squared.

    Each move is the best of the few that point most against the excess.
    """
    rows = np.ones((1, 1)) if left is None else left.vectors
    lengths = np.sqrt(np.outer((rows**2).sum(1), (right.vectors**2).sum(1)))
    excess = whole - np.clip(whole, low, high)
    for _ in range(_MOVES):
        worst = float((excess**2).sum())
        if not worst:
            break
        pull = rows @ excess @ right.vectors.T
        places = np.argpartition(-np.abs(pull) / lengths, min(_TRIED, pull.size - 1), axis=None)[:_TRIED]
        moves = []
        for place in places:
            i, j = divmod(int(place), pull.shape[1])
            moved = whole - np.sign(pull[i, j]) * np.outer(rows[i], right.vectors[j])
            left_over = moved - np.clip(moved, low, high)
            moves.append((float((left_over**2).sum()), moved, left_over))
        least, moved, left_over = min(moves, key=lambda move: move[0])
        if least >= worst:
            break
        whole, excess = moved, left_over
    return whole

"""RLG (Dang et al. 2021): singular vectors of dW, and a linear program for each class.

dW^T = P S Q. An example of class c has p - y = r Q for some r: negative at c and positive elsewhere. So c occurs if
some r has r q_c < 0 and r q_j > 0 for all other j. Every class then looks possible once K reaches min(m, C).
"""

from __future__ import annotations

import numpy as np

from trainwitness.leakage.labels.final_layer import FinalLayer
from trainwitness.leakage.labels.restorer import Auxiliary, Restored
from trainwitness.leakage.labels.whole_counts import Floats

RANK_TOLERANCE = 1e-6
"""Singular values below this share of the largest are rounding (float32 gradients)."""


def restore(gradient: FinalLayer, layer: FinalLayer, batch_size: int, auxiliary: Auxiliary | None = None) -> Restored:
    _ = layer, auxiliary
    found = points(gradient, batch_size)
    return Restored(np.array([separable(found, c) for c in range(len(found))], bool))


def points(gradient: FinalLayer, batch_size: int) -> Floats:
    """One point per class [C, rank]: the columns of Q."""
    _, singular, vectors = np.linalg.svd(gradient.weight.T, full_matrices=False)
    rank = min(batch_size, int((singular > RANK_TOLERANCE * singular[0]).sum())) if singular[0] else 0
    out: Floats = vectors[:rank].T
    return out


def separable(points: Floats, chosen: int) -> bool:
    """Whether some r has r q_chosen < 0 < r q_j: a linear program, with the margin as its objective."""
    from scipy.optimize import linprog

    count, rank = points.shape
    if not rank:
        return False
    sides = np.where(np.arange(count) == chosen, 1.0, -1.0)[:, None]
    # maximise t: r q_c <= -t, r q_j >= t, entries of r in -1..1
    bounds = [(-1.0, 1.0)] * rank + [(0.0, 1.0)]
    found = linprog(
        np.append(np.zeros(rank), -1.0),
        A_ub=np.hstack([sides * points, np.ones((count, 1))]),
        b_ub=np.zeros(count),
        bounds=bounds,
        method="highs",
    )
    return bool(found.status == 0 and -found.fun > 1e-9)

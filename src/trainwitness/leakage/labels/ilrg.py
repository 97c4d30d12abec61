"""iLRG (Ma et al. 2023, paper 004): class-wise embeddings and probabilities, then linear equations for counts.

(1) e_i = dW_i / db_i; (2) p_i = softmax(W e_i + b); (3) sum_j k_j = K and sum_j k_j p_j[i] - K db_i = k_i, equation
(7), by least squares; (4) whole counts. The published code lets counts miss K; here they are made whole under that
sum.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch

from trainwitness.leakage.labels.final_layer import FinalLayer, bias_gradient
from trainwitness.leakage.labels.restorer import Auxiliary, Restored
from trainwitness.leakage.labels.whole_counts import Floats, confidence, whole_counts

SMALLEST = 1e-12
"""|db_i| below this is replaced by it (the paper's epsilon)."""
ILL_CONDITIONED = 1e-8
"""Reciprocal condition below which the square system is not trusted."""


def embeddings(gradient: FinalLayer) -> Floats:
    """Class-wise embeddings dW_i / db_i, one line per class."""
    bias = bias_gradient(gradient)
    divisor = np.where(np.abs(bias) < SMALLEST, np.where(bias < 0, -SMALLEST, SMALLEST), bias)
    out: Floats = gradient.weight / divisor[:, None]
    return out


def restore(
    gradient: FinalLayer,
    layer: FinalLayer,
    batch_size: int,
    auxiliary: Auxiliary | None = None,
    present: npt.NDArray[np.bool_] | None = None,
) -> Restored:
    """`present`: classes known to occur (from RLG, say); the others' unknowns and equations are left out."""
    _ = auxiliary
    kept = np.arange(layer.classes) if present is None else np.flatnonzero(present)
    probabilities = layer.probabilities(embeddings(gradient)[kept])[:, kept]
    found = _solve(probabilities, bias_gradient(gradient)[kept], batch_size)
    whole = whole_counts(found, batch_size)
    counts, estimate, sure = np.zeros(layer.classes, np.int64), np.zeros(layer.classes), np.ones(layer.classes)
    counts[kept], estimate[kept], sure[kept] = whole, found, confidence(found, whole)
    return Restored(counts > 0, counts, estimate, sure)


def _solve(probabilities: Floats, bias: Floats, total: int) -> Floats:
    """Least squares of (P^T - I) k = K db and sum k = K."""
    whole = bool(np.allclose(probabilities.sum(1), 1, rtol=0, atol=1e-9))
    found = _square(probabilities, bias, total) if whole else None
    if found is not None:
        return found
    count = len(bias)
    system = np.vstack([probabilities.T - np.eye(count), np.ones((1, count))])
    least: Floats = np.linalg.lstsq(system, np.append(total * bias, float(total)), rcond=None)[0]
    return least


def _square(probabilities: Floats, bias: Floats, total: int) -> Floats | None:
    """The same from one square system, where probabilities sum to 1 over the classes kept.

    Columns of M = P^T - I then sum to zero, so that M k cannot follow the mean of db and all else is solved exactly:
    (M + 1/C) k = K (db - mean db) + K/C makes the sum K and M k = K (db - mean db). None where M has nearly a second
    null vector (classes that are certain), which the pseudo-inverse passes over.
    """
    from scipy.linalg.lapack import dgecon

    count = len(bias)
    square = probabilities.T - np.eye(count) + 1 / count
    wanted = torch.from_numpy(total * (bias - bias.mean() + 1 / count))
    # torch's LU, not scipy's: several times faster beside other work.
    factor, pivots, failed = torch.linalg.lu_factor_ex(torch.from_numpy(square))
    if int(failed) or dgecon(factor.numpy(), np.abs(square).sum(0).max())[0] < ILL_CONDITIONED:
        return None
    found: Floats = torch.linalg.lu_solve(factor, pivots, wanted[:, None])[:, 0].numpy()
    return found

"""iLRG (Ma et al. 2023, paper 004): class-wise embeddings and probabilities, then linear equations for counts.

(1) e_i = dW_i / db_i; (2) p_i = softmax(W e_i + b); (3) sum_j k_j = K and sum_j k_j p_j[i] - K db_i = k_i, equation
(7), by least squares; (4) whole counts. The published code lets counts miss K; here they are made whole under that
sum.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from trainwitness.leakage.labels.final_layer import FinalLayer, bias_gradient
from trainwitness.leakage.labels.restorer import Auxiliary, Restored
from trainwitness.leakage.labels.whole_counts import Floats, confidence, whole_counts

SMALLEST = 1e-12
"""|db_i| below this is replaced by it (the paper's epsilon)."""


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
    """Least squares of (P^T - I) k = K db and sum k = K.

    The system has one more equation than unknowns and full rank (the columns of P^T - I sum to zero, the last row
    does not), so the normal equations with a few steps of refinement give what the pseudo-inverse gives, 10 times
    sooner.
    """
    count = len(bias)
    system = np.vstack([probabilities.T - np.eye(count), np.ones((1, count))])
    wanted = np.append(total * bias, float(total))
    from scipy.linalg import LinAlgError, cho_factor, cho_solve

    try:
        factor = cho_factor(system.T @ system)
        found = cho_solve(factor, system.T @ wanted)
        for _ in range(2):
            found = found + cho_solve(factor, system.T @ (wanted - system @ found))
    except LinAlgError:
        found = np.full(count, np.nan)
    if not np.isfinite(found).all():
        found = np.linalg.lstsq(system, wanted, rcond=None)[0]
    out: Floats = found
    return out

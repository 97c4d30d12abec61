"""likelihood: the likeliest counts given the whole gradient of the last layer, for models that have learned.

Let g be one example's gradient by the last layer, (p - y) e^T and p - y, and take (g, y) as jointly Gaussian with
the moments of labelled auxiliary images. A batch's K g is a sum of such examples, so the likeliest counts are
linear in it: k = K mean(y) + B (sum of g - K mean(g)), with B the ridge regression of labels on gradients. Its
penalty is chosen by leave-one-out errors, which also say how sure each count is: the errors of K examples add up.
Gradients meet only in inner products, (r_a . r_b) (e_a . e_b + 1) with r = p - y, so nothing of the size of a
gradient is stored.
"""

from __future__ import annotations

import numpy as np

from trainwitness.leakage.labels.final_layer import FinalLayer
from trainwitness.leakage.labels.restorer import Auxiliary, Restored, needed
from trainwitness.leakage.labels.whole_counts import Floats, confidence, whole_counts

PENALTIES = 10.0 ** np.arange(-8, 4)
"""Tried, as shares of the mean squared gradient."""


def restore(gradient: FinalLayer, layer: FinalLayer, batch_size: int, auxiliary: Auxiliary | None = None) -> Restored:
    known = needed(auxiliary)
    constant = 0.0 if gradient.bias is None else 1.0
    labels = np.eye(layer.classes)[known.labels]
    residual = layer.probabilities(known.embeddings) - labels
    gram = (residual @ residual.T) * (known.embeddings @ known.embeddings.T + constant)
    towards = ((residual @ gradient.weight) * known.embeddings).sum(1)
    if gradient.bias is not None:
        towards = towards + residual @ gradient.bias
    towards = batch_size * (towards - towards.mean() - gram.mean(0) + gram.mean())
    weights, errors = _regression(gram, labels - labels.mean(0))
    estimate = batch_size * labels.mean(0) + towards @ weights
    spread = np.sqrt(batch_size * errors)
    counts = whole_counts(estimate, batch_size, 1 / spread**2)
    return Restored(counts > 0, counts, estimate, confidence(estimate, counts, spread))


def _regression(gram: Floats, wanted: Floats) -> tuple[Floats, Floats]:
    """Dual weights of ridge regression with the best penalty, and the mean squared leave-one-out error per class."""
    count = len(gram)
    centred = gram - gram.mean(0) - gram.mean(1)[:, None] + gram.mean()
    values, vectors = np.linalg.eigh(centred)
    values = np.maximum(values, 0.0)
    turned = vectors.T @ wanted
    best: tuple[float, Floats, Floats] | None = None
    for penalty in PENALTIES * max(float(np.trace(gram)) / count, 1e-300):
        kept = values / (values + penalty)
        leverage = (vectors**2 @ kept + 1 / count)[:, None]
        missed = (wanted - vectors @ (kept[:, None] * turned)) / np.maximum(1 - leverage, 1e-9)
        errors = (missed**2).mean(0)
        if best is None or errors.sum() < best[0]:
            best = float(errors.sum()), vectors @ (turned / (values + penalty)[:, None]), errors
    assert best is not None
    return best[1], np.maximum(best[2], 1e-12)

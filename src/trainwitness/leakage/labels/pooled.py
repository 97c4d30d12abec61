"""pooled: one embedding for the whole batch, from every row of the gradient.

Class-wise quotients dW_i / db_i explode where db_i is near 0. If all embeddings were the same e, dW = db e^T, whose
least squares solution `e = sum_i w_i db_i dW_i / sum_i w_i db_i^2` weighs each row by what it is worth. Then p =
softmax(W e + b), and since db is the mean of p - y, the counts are K (p - db): no system to solve, and they sum to K
by themselves.

Row i misses db_i e by k_i / K times what sets class i apart: nothing for a class that is not there. So the first
counts, found with equal weights, say how far each row is to be trusted, w_i = 1 / k_i^2.
"""

from __future__ import annotations

import numpy as np

from trainwitness.leakage.labels.final_layer import FinalLayer, bias_gradient
from trainwitness.leakage.labels.restorer import Auxiliary, Restored
from trainwitness.leakage.labels.whole_counts import Floats


def embedding(gradient: FinalLayer, weights: Floats | None = None) -> Floats:
    """The batch's embedding in the (weighted) least squares sense."""
    bias = bias_gradient(gradient)
    weighed = bias if weights is None else weights * bias
    out: Floats = weighed @ gradient.weight / max(float(weighed @ bias), 1e-300)
    return out


def restore(gradient: FinalLayer, layer: FinalLayer, batch_size: int, auxiliary: Auxiliary | None = None) -> Restored:
    _ = auxiliary
    bias = bias_gradient(gradient)
    shares = layer.probabilities(embedding(gradient)) - bias
    weights = 1 / np.maximum(batch_size * shares, 1.0) ** 2
    probabilities = layer.probabilities(embedding(gradient, weights))
    return Restored.whole(batch_size * (probabilities - bias), batch_size)

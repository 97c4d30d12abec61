"""pooled: one embedding for the whole batch, from every row of the gradient.

Class-wise quotients dW_i / db_i explode where db_i is near 0. If all embeddings were the same e, dW = db e^T, whose
least squares solution `e = sum_i db_i dW_i / sum_i db_i^2` weighs each row by what it is worth. Then p = softmax(W
e + b), and since db is the mean of p - y, the counts are K (p - db): no system to solve, and they sum to K by
themselves.
"""

from __future__ import annotations

from trainwitness.leakage.labels.final_layer import FinalLayer, bias_gradient
from trainwitness.leakage.labels.restorer import Auxiliary, Restored
from trainwitness.leakage.labels.whole_counts import Floats


def embedding(gradient: FinalLayer) -> Floats:
    """The batch's embedding in the least squares sense."""
    bias = bias_gradient(gradient)
    out: Floats = bias @ gradient.weight / max(float(bias @ bias), 1e-300)
    return out


def restore(gradient: FinalLayer, layer: FinalLayer, batch_size: int, auxiliary: Auxiliary | None = None) -> Restored:
    _ = auxiliary
    probabilities = layer.probabilities(embedding(gradient))
    return Restored.whole(batch_size * (probabilities - bias_gradient(gradient)), batch_size)

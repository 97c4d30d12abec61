"""auxiliary: the mean probabilities come from other images of the same distribution.

For an untrained model the mean p hardly depends on the labels, so counts are K (p - db) with the mean p of a few
hundred images of the attacker's own. Where labels matter (the model has learned), class means P_j give k = P^T k -
K db.
"""

from __future__ import annotations

import numpy as np

from trainwitness.leakage.labels.final_layer import FinalLayer, bias_gradient
from trainwitness.leakage.labels.restorer import Auxiliary, Restored, needed
from trainwitness.leakage.labels.whole_counts import Floats

PRIOR = 1.0
"""Images' worth of the overall mean in each class's mean, which a class without auxiliary images falls back to."""


def restore(gradient: FinalLayer, layer: FinalLayer, batch_size: int, auxiliary: Auxiliary | None = None) -> Restored:
    known = needed(auxiliary)
    probabilities = layer.probabilities(known.embeddings)
    system = np.vstack(
        [class_means(probabilities, known, layer.classes).T - np.eye(layer.classes), np.ones(layer.classes)]
    )
    wanted = np.append(batch_size * bias_gradient(gradient), float(batch_size))
    estimate = np.linalg.lstsq(system, wanted, rcond=None)[0]
    return Restored.whole(estimate, batch_size)


def class_means(probabilities: Floats, known: Auxiliary, classes: int) -> Floats:
    """Mean probabilities of each class, drawn towards the mean of all."""
    overall = probabilities.mean(0)
    out = np.empty((classes, classes))
    for c in range(classes):
        own = probabilities[known.labels == c]
        out[c] = (own.sum(0) + PRIOR * overall) / (len(own) + PRIOR)
    return out

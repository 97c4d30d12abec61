"""GradInversion (Yin et al. 2021), scaled as in paper 004, section 4.2: rows of dW whose least element is negative.

As published it takes the K rows with the least minima, which assumes one example per class.
"""

from __future__ import annotations

from trainwitness.leakage.labels.final_layer import FinalLayer
from trainwitness.leakage.labels.restorer import Auxiliary, Restored


def restore(gradient: FinalLayer, layer: FinalLayer, batch_size: int, auxiliary: Auxiliary | None = None) -> Restored:
    _ = layer, auxiliary
    least = gradient.weight.min(1)
    return Restored(least == least.min() if batch_size == 1 else least < 0)

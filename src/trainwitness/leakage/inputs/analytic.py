"""analytic: one input of a fully connected first layer, exactly: dW_i = db_i x^T, so x = dW_i / db_i.

All rows are used at once, each weighed by what it is worth: x = sum_i db_i dW_i / sum_i db_i^2.
"""

from __future__ import annotations

import torch

from trainwitness.core.errors import UsageError
from trainwitness.leakage.inputs.first_layer import FirstLayer
from trainwitness.leakage.inputs.labelled import labels_for
from trainwitness.leakage.inputs.restored import Restoration
from trainwitness.leakage.inputs.target import Target


def reconstruct(target: Target) -> Restoration:
    """The input of a batch of one."""
    if target.count != 1:
        raise UsageError(f"analytic restores one example, the batch has {target.count}", hint="use sparse, dlg or ig")
    layer = FirstLayer.of(target)
    bias, weight = layer.bias_gradient, layer.weight_gradient
    if not float(bias.abs().max()):
        raise UsageError("the first layer's gradient is zero: no unit was active, so nothing is shared")
    line = bias @ weight / bias.square().sum()
    left = float((weight - torch.outer(bias, line)).norm() / weight.norm())
    inputs = layer.as_inputs(target, line)
    return Restoration(inputs, labels_for(target, inputs), left)

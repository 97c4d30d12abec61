"""Labels of restored inputs, from what they give at the last layer."""

from __future__ import annotations

import torch

from trainwitness.leakage.inputs.target import Target
from trainwitness.leakage.labels.final_layer import FinalLayer
from trainwitness.training.final_layer import final_pass, last_linear


def labels_for(target: Target, unit: torch.Tensor) -> torch.Tensor:
    """The labels with which these inputs give the last layer's gradient: dW = (P - Y)^T E / K, solved for Y.

    Exact where the inputs are exact and their embeddings independent, however well the model is trained.
    """
    inputs = target.box.inside(unit)
    guess = torch.zeros(len(unit), dtype=torch.long, device=inputs.device)
    seen = final_pass(target.stepper, target.state, inputs, guess)
    name, _ = last_linear(target.stepper.live.model)
    gradient = FinalLayer.named(target.gradient, name)
    embeddings, logits = seen.embeddings.double().cpu(), seen.logits.double().cpu()
    whole = torch.from_numpy(gradient.weight)
    if gradient.bias is not None:
        embeddings = torch.cat([embeddings, torch.ones(len(embeddings), 1, dtype=torch.float64)], 1)
        whole = torch.cat([whole, torch.from_numpy(gradient.bias)[:, None]], 1)
    slopes: torch.Tensor = len(unit) * torch.linalg.lstsq(embeddings.T, whole.T).solution
    if logits.shape[1] == 1:
        return (torch.sigmoid(logits) - slopes > 0.5).long()[:, 0]
    return (torch.softmax(logits, 1) - slopes).argmax(1)

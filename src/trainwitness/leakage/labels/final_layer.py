"""FinalLayer and its gradient: all that label restoration looks at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from trainwitness.core.errors import UsageError
from trainwitness.training.final_layer import parameter_name

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class FinalLayer:
    """`z = W e + b` in float64: W [C, m], b [C]; or, with the same shapes, its batch-averaged gradient."""

    weight: Floats
    bias: Floats | None

    @classmethod
    def of(cls, weight: torch.Tensor, bias: torch.Tensor | None) -> FinalLayer:
        """From tensors of any precision."""
        if weight.dim() != 2 or (bias is not None and bias.shape != weight.shape[:1]):
            raise UsageError(f"a last layer of shape {list(weight.shape)} is not linear")
        return cls(_numbers(weight), None if bias is None else _numbers(bias))

    @classmethod
    def named(cls, tensors: Mapping[str, torch.Tensor], name: str) -> FinalLayer:
        """The layer called `name` among a model's parameters or gradients."""
        weight, bias = (parameter_name(name, key) for key in ("weight", "bias"))
        if weight not in tensors:
            raise UsageError(f"{weight} is not among the tensors", hint="give the last layer's gradient")
        return cls.of(tensors[weight], tensors.get(bias))

    @property
    def classes(self) -> int:
        return len(self.weight)

    def probabilities(self, embeddings: Floats) -> Floats:
        """softmax(W e + b), one line per embedding."""
        logits = embeddings @ self.weight.T + (0 if self.bias is None else self.bias)
        shifted = np.exp(logits - logits.max(axis=-1, keepdims=True))
        out: Floats = shifted / shifted.sum(axis=-1, keepdims=True)
        return out


def two_classes(layer: FinalLayer, gradient: FinalLayer) -> tuple[FinalLayer, FinalLayer]:
    """A single logit z as the two logits (0, z), which give the same loss; other layers as they are."""
    if layer.classes > 1:
        return layer, gradient
    bias, slope = layer.bias, gradient.bias
    return (
        FinalLayer(np.vstack([0 * layer.weight, layer.weight]), None if bias is None else np.append([0.0], bias)),
        FinalLayer(
            np.vstack([-gradient.weight, gradient.weight]), None if slope is None else np.append(-slope, slope)
        ),
    )


def bias_gradient(gradient: FinalLayer) -> Floats:
    """db, the mean of p - y over the batch: what counting rests on."""
    if gradient.bias is None:
        raise UsageError(
            "the last layer has no bias, so its gradient does not say how many labels of each class there were",
            hint="idlg, gradinversion and rlg restore which classes occur from the weights alone",
        )
    return gradient.bias


def _numbers(tensor: torch.Tensor) -> Floats:
    return tensor.detach().to("cpu", torch.float64).numpy()

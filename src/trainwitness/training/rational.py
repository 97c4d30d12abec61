"""Gradients of small fully connected networks over the rational numbers, exact but for the exponential.

With softmax and cross-entropy the gradient of one example is A(x) (p(x) - e_y): A(x) is a matrix (parameters x
classes) of rational numbers, and p(x) the softmax of rational logits. Floating-point weights are rational, and so is
a pixel q / 255. Everything is kept as whole numbers over one common denominator.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import nn

from trainwitness.core.errors import UsageError

Integers = npt.NDArray[Any]
"""Python integers of any size, in an array of objects."""


@dataclass(frozen=True, eq=False)
class RationalGradients:
    """A(x) and the logits of some inputs. `factors` is [inputs, parameters, classes], A(x) times `scale`."""

    factors: Integers
    scale: int
    logits: Integers
    """[inputs, classes], the logits times `logit_scale`."""
    logit_scale: int

    @property
    def classes(self) -> int:
        return int(self.factors.shape[2])

    def shape_of(self, number: int) -> tuple[int, ...]:
        """The logits of an input up to a common shift: inputs that share it have the same softmax exactly."""
        first, *others = self.logits[number].tolist()
        return tuple(other - first for other in others)

    def softmax(self, number: int, bits: int) -> list[int]:
        """p(x) times 2^bits, each within one unit."""
        from mpmath import mp

        with mp.workprec(bits + 64):
            powers = [mp.exp(mp.mpf(z) / self.logit_scale) for z in (0, *self.shape_of(number))]
            total = mp.fsum(powers)
            return [int(mp.nint(mp.ldexp(power / total, bits))) for power in powers]

    def softmax_bounds(self, number: int, bits: int) -> list[Any]:
        """p(x) as intervals that are sure to hold it (`mpmath.iv`, rounded outwards)."""
        from mpmath import iv

        iv.prec = bits
        powers = [iv.exp(iv.mpf(z) / self.logit_scale) for z in (0, *self.shape_of(number))]
        total = sum(powers, iv.mpf(0))
        return [power / total for power in powers]


def rational_gradients(model: nn.Module, inputs: Integers, *, unit: int = 255) -> RationalGradients:
    """For `model` (linear, or linear - ReLU - linear) and `inputs` [inputs, d] of whole numbers, read as q / unit.

    Parameters are in the order of `model.parameters()`.
    """
    layers = [module for module in model.modules() if isinstance(module, nn.Linear)]
    known = all(isinstance(m, (nn.Linear, nn.ReLU, nn.Flatten, nn.Sequential)) for m in model.modules())
    if not known or not 1 <= len(layers) <= 2:
        raise UsageError("exact gradients need a linear model or one hidden ReLU layer")
    bits = max(_fraction_bits(parameter.detach().double().numpy()) for parameter in model.parameters())
    q = inputs.astype(object)
    if len(layers) == 1:
        weight, bias = _whole(layers[0], bits)
        factors = _last_layer(q, len(weight), None if bias is None else unit)
        return RationalGradients(factors, unit, _affine(q, weight, bias, unit), unit << bits)
    (first, first_bias), (last, last_bias) = (_whole(layer, bits) for layer in layers)
    before = _affine(q, first, first_bias, unit)
    live = (before > 0).astype(int).astype(object)
    hidden = before * live
    outer = _last_layer(hidden, len(last), None if last_bias is None else unit << bits)
    inner = _hidden_layer(q, live, last, None if first_bias is None else unit)
    logits = _affine(hidden, last, last_bias, unit << bits)
    return RationalGradients(np.concatenate([inner, outer], axis=1), unit << bits, logits, unit << 2 * bits)


def all_inputs(values: Sequence[int], pixels: int) -> Integers:
    """Every input of `pixels` pixels with the given values, one per line."""
    grid = np.meshgrid(*[np.asarray(values)] * pixels, indexing="ij")
    return np.stack([axis.ravel() for axis in grid], axis=1)


def _affine(inputs: Integers, weight: Integers, bias: Integers | None, unit: int) -> Integers:
    found: Integers = inputs @ weight.T
    return found if bias is None else found + unit * bias


def _last_layer(features: Integers, classes: int, one: int | None) -> Integers:
    """dL/dW[j, k] = features[k] (p - e)_j and dL/db[j] = (p - e)_j; `one` is 1 in units of the features."""
    count, width = features.shape
    per_class = np.eye(classes, dtype=int).astype(object)
    weights: Integers = (features[:, None, :, None] * per_class[None, :, None, :]).reshape(
        count, classes * width, classes
    )
    if one is None:
        return weights
    return np.concatenate([weights, np.broadcast_to(one * per_class, (count, classes, classes))], axis=1)


def _hidden_layer(inputs: Integers, live: Integers, last: Integers, one: int | None) -> Integers:
    """dL/dW1[h, i] = x_i [unit h is live] sum_j W2[j, h] (p - e)_j, and the same without x_i for the bias."""
    back = live[:, :, None] * last.T[None]  # [inputs, hidden, classes]
    weights: Integers = (back[:, :, None, :] * inputs[:, None, :, None]).reshape(len(inputs), -1, last.shape[0])
    return weights if one is None else np.concatenate([weights, one * back], axis=1)


def _fraction_bits(values: npt.NDArray[np.float64]) -> int:
    return max(Fraction(float(value)).denominator.bit_length() - 1 for value in values.ravel())


def _whole(layer: nn.Linear, bits: int) -> tuple[Integers, Integers | None]:
    """Weight and bias times 2^bits, exactly."""

    def exact(tensor: Any) -> Integers:
        values = tensor.detach().double().numpy()
        flat = [int(Fraction(float(value)) * (1 << bits)) for value in values.ravel()]
        return np.array(flat, dtype=object).reshape(values.shape)

    return exact(layer.weight), None if layer.bias is None else exact(layer.bias)

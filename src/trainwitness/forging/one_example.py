"""Batches of one example cannot be forged: the gradient gives the example away (paper 000, Proposition 1).

For b = 1 the first layer's gradient is x delta' and its bias's is delta, so with a bias and delta != 0 the input is
their quotient, and no other example has the same gradients. Without a bias the input is known up to a factor: c x.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

Reals = npt.NDArray[np.float64]
Known = Literal["unique", "up to a factor", "nothing"]


@dataclass(frozen=True, eq=False)
class OneExample:
    """What the gradients of a fully connected first layer say about the one example behind them."""

    known: Known
    why: str
    inputs: Reals | None = None
    """[d]: the input as the model reads it; of length 1 where a factor is unknown."""


def one_example(weights: Reals, bias: Reals | None, *, tolerance: float = 1e-3) -> OneExample:
    """The input from the gradients by the first layer's weights [d, n] and bias [n].

    >>> one_example(np.outer([1.0, 2.0], [0.5, -0.5]), np.array([0.5, -0.5])).inputs
    array([1., 2.])
    """
    size = float(np.linalg.norm(weights))
    if size == 0 and (bias is None or not np.any(bias)):
        return OneExample("nothing", "the first layer is dead: no error comes back to it")
    left, values, _ = np.linalg.svd(weights, full_matrices=False)
    if len(values) > 1 and values[1] > tolerance * values[0]:
        return OneExample("nothing", "the gradient has rank above 1: more than one example is behind it")
    if bias is None:
        return OneExample("up to a factor", "without a bias, c x has the gradient of x for another error", left[:, 0])
    found: Reals = weights @ bias / float(bias @ bias)
    if np.linalg.norm(weights - np.outer(found, bias)) > tolerance * size:
        return OneExample("nothing", "weights and bias do not have the gradients of one example")
    return OneExample("unique", "the quotient of the gradients by weights and bias is the input", found)

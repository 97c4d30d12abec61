"""Exact forging with real numbers under DP-SGD: the change must also keep the length of every gradient.

Clipping multiplies the gradient of example i by min(1, C / |g_i|). With unchanged errors, softmax regression has
|g_i|^2 = (|x_i|^2 + 1) |d_i|^2. So a change P keeps the clipped sum if P W = 0, P'E = 0 with E the clipped errors,
and |x_i + P_i| = |x_i| for every example: one more equation per example, a quadratic one.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from trainwitness.core.errors import UsageError
from trainwitness.forging.relax import null_projection, span
from trainwitness.tasks.task import Privacy
from trainwitness.training.first_layer import FirstLayer

Reals = npt.NDArray[np.float64]
NEWTON_STEPS = 50


def clipped_errors(layer: FirstLayer, privacy: Privacy) -> Reals:
    """The errors times their clipping factors [b, n]."""
    if not layer.only:
        raise UsageError("only softmax regression is forged exactly under clipping", hint="use a softmax task")
    lengths = np.sqrt(((layer.inputs**2).sum(1) + layer.biased) * (layer.errors**2).sum(1))
    factors: Reals = np.minimum(1, privacy.clip / lengths)
    return layer.errors * factors[:, None]


def change_of_same_length(layer: FirstLayer, privacy: Privacy, wanted: Reals) -> Reals:
    """A change [b, d] of what the model reads, near `wanted`, that keeps the clipped gradient sum exactly.

    Newton's method inside the two null spaces: the correction is sum_j m_j P(e_j v_j') with v_j = x_j + P_j, which
    takes a b x b system for m.
    """
    errors = clipped_errors(layer, privacy)
    project, across, along = null_projection(layer.seen, errors), span(layer.seen), span(errors)
    others = np.eye(len(errors)) - along @ along.T
    target = (layer.inputs**2).sum(1)
    change = project(wanted)
    for _ in range(NEWTON_STEPS):
        moved = layer.inputs + change
        excess = (moved**2).sum(1) - target
        if np.abs(excess).max() < 1e-13 * target.max():
            return change
        free = moved - (moved @ across) @ across.T
        multipliers = np.linalg.lstsq(2 * others * (free @ free.T), -excess, rcond=None)[0]
        change = change + project(multipliers[:, None] * moved)
    raise UsageError("no change keeps the lengths of the gradients", hint="ask for a smaller change")

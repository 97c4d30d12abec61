"""Losses whose errors stay accurate however small they are.

A well classified example has an error of 1e-10 or less. Computed as p - 1 it would be rounding; computed as the sum
of the other classes' probabilities it keeps all its digits, so that two such examples do not look alike.
"""

from __future__ import annotations

from typing import Any

import torch

from trainwitness.training.exact.elementary import exp, log, sigmoids
from trainwitness.training.exact.linear import Gradients
from trainwitness.training.exact.sums import inner_sum, mean
from trainwitness.training.exact.witness import Witness


class CrossEntropy(torch.autograd.Function):
    """The mean over examples of -log softmax(logits)[label]."""

    @staticmethod
    def forward(ctx: Any, logits: torch.Tensor, labels: torch.Tensor, witness: Witness) -> torch.Tensor:
        witness.outputs = logits.detach()
        at = labels.unsqueeze(1)
        powers = exp(logits - logits.amax(1, keepdim=True))
        own = powers.gather(1, at)
        others = powers.scatter(1, at, 0.0)
        rest = inner_sum(others, (1,), witness)
        whole = own + rest
        ctx.save_for_backward((others / whole).scatter_(1, at, -(rest / whole)))
        losses = log(whole / own)
        return mean(losses, (0, 1), witness).reshape(())

    @staticmethod
    def backward(ctx: Any, *errors: torch.Tensor) -> Gradients:
        (error,) = ctx.saved_tensors
        return error * (errors[0] * (1 / len(error))), None, None


class BinaryCrossEntropy(torch.autograd.Function):
    """The mean of log(1 + e^x) - y x."""

    @staticmethod
    def forward(ctx: Any, logits: torch.Tensor, labels: torch.Tensor, witness: Witness) -> torch.Tensor:
        witness.outputs = logits.detach()
        yes, no = sigmoids(logits)
        ctx.save_for_backward(torch.where(labels == 1, -no, yes - labels))
        larger = torch.maximum(yes, no)
        losses = logits.clamp_min(0.0) - logits * labels - log(larger)
        return mean(losses, tuple(range(losses.dim())), witness).reshape(())

    @staticmethod
    def backward(ctx: Any, *errors: torch.Tensor) -> Gradients:
        (error,) = ctx.saved_tensors
        return error * (errors[0] * (1 / error.numel())), None, None

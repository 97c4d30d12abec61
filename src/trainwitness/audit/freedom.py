"""How much freedom a step leaves its batch: ranks, null spaces, and counting."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from trainwitness.core.errors import UsageError
from trainwitness.forging.problem import Problem
from trainwitness.training.differentiable import GradientMap
from trainwitness.training.first_layer import first_layer
from trainwitness.training.stepper import fetch

_MATRIX = 30_000_000
"""Numbers in a matrix whose rank is still measured."""
_ROWS = 3000
"""Rows of a Jacobian, one backward pass each."""


@dataclass(frozen=True)
class Freedom:
    """What can move. Ranks are None where they were not measured, with the reason in `why`."""

    batch: int
    inputs: int
    """Numbers in one input."""
    parameters: int
    layer: str
    """The first layer, in words."""
    rank_weights: int | None
    """Combinations of an input's numbers that the first layer sees."""
    rank_errors: int | None
    """Independent errors in the batch; for fully connected first layers."""
    rank_jacobian: int | None
    """Of the map from inputs to the gradient."""
    biased: bool
    live: bool
    """Some error comes back to the first layer."""
    why: str = ""

    @property
    def null_space(self) -> int:
        """Dimension of Proposition 2's changes: (d - rank W)(b - rank D)."""
        if self.rank_weights is None or self.rank_errors is None:
            return 0
        return max(0, self.inputs - self.rank_weights) * max(0, self.batch - self.rank_errors)

    @property
    def fibre(self) -> int:
        """At least so many dimensions of batches around this one have its gradient, where the ranks are constant."""
        seen = self.parameters if self.rank_jacobian is None else self.rank_jacobian
        return max(self.null_space, self.batch * self.inputs - seen, 0)


def freedom(problem: Problem) -> Freedom:
    """Measures a step's freedom."""
    task, model = problem.stepper.task, problem.stepper.live.model
    parameters = sum(p.numel() for p in model.parameters() if p.requires_grad)
    inputs = math.prod(task.dataset.inputs.shape[1:])
    rank, why_not = _jacobian_rank(problem, parameters, inputs)
    try:
        layer = first_layer(problem.stepper, problem.before, problem.batch)
    except UsageError as error:
        seen = _convolution_rank(problem)
        return Freedom(problem.batch.size, inputs, parameters, error.message, seen, None, rank, False, True, why_not)
    seen, rank_errors = (int(np.linalg.matrix_rank(matrix)) for matrix in (layer.seen, layer.errors))
    words = f"fully connected, {inputs} -> {layer.weight.shape[1]}{', the only one' if layer.only else ''}"
    live = bool(np.abs(layer.errors).max() > 0)
    return Freedom(
        problem.batch.size, inputs, parameters, words, seen, rank_errors, rank, layer.biased, live, why_not
    )


def _jacobian_rank(problem: Problem, parameters: int, inputs: int) -> tuple[int | None, str]:
    """The rank of the gradient by the inputs, where that is a small matrix."""
    size = problem.batch.size * inputs
    if parameters > _ROWS or parameters * size > _MATRIX:
        return None, f"the Jacobian of {parameters:,} x {size:,} is too large to measure its rank"
    fine = problem.in_float64()
    read, labels = fetch(fine.stepper.task.dataset, fine.rows, fine.stepper.device, torch.float64)
    if not read.is_floating_point():
        return None, "tokens have no Jacobian"
    try:
        found = GradientMap(fine.stepper, fine.before, labels).matrix(read)
    except (RuntimeError, UsageError) as error:  # an operation that PyTorch differentiates only once, batch norm
        return None, f"no Jacobian: {str(error).splitlines()[0]}"
    return int(torch.linalg.matrix_rank(found)), ""


def _convolution_rank(problem: Problem) -> int | None:
    """The rank of a first convolution as a linear map of the whole image."""
    model, shape = problem.stepper.live.model, problem.stepper.task.dataset.inputs.shape[1:]
    with_parameters = [m for m in model.modules() if next(m.parameters(recurse=False), None) is not None]
    if not with_parameters or not isinstance(with_parameters[0], nn.Conv2d) or len(shape) != 3:
        return None
    problem.stepper.live.load_parameters(problem.before)
    layer, size = with_parameters[0], math.prod(shape)
    weight = layer.weight.detach().double().cpu()
    one = torch.zeros(1, *shape, dtype=torch.float64)
    settings = (None, layer.stride, layer.padding, layer.dilation, layer.groups)
    outputs = nn.functional.conv2d(one, weight, *settings).numel()  # type: ignore[arg-type]
    if size * outputs > _MATRIX:
        return None
    units = torch.eye(size, dtype=torch.float64).view(size, *shape)
    matrix = nn.functional.conv2d(units, weight, *settings).flatten(1)  # type: ignore[arg-type]
    return int(torch.linalg.matrix_rank(matrix))

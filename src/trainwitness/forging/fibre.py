"""fibre: Newton along the set of batches that have the same gradient, for networks whose first layer sees everything.

Where a batch has more numbers than the gradient has, real-valued batches with the same gradient form surfaces even if
no layer has a null space. The batch is moved along the surface's tangent and put back onto it by Newton steps, each a
least-squares problem that only needs products with the derivative. `whole` rounds the result to the domain's grid.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from scipy.linalg import lstsq
from scipy.sparse.linalg import LinearOperator, lsmr

from trainwitness.core.errors import UsageError
from trainwitness.forging.forger import Choice
from trainwitness.forging.problem import Problem, same_classes
from trainwitness.tasks.domain import IntegerBox
from trainwitness.training.differentiable import GradientMap
from trainwitness.training.first_layer import input_scale
from trainwitness.training.stepper import fetch

Reals = npt.NDArray[np.float64]
_NEWTON = 8
_HALVINGS = 6
_WRITTEN_OUT = 2000
"""Parameters up to which the derivative is written out as a matrix."""
_ENOUGH = 1e-12
"""A gap below this share of the gradient is as near as float64 comes."""


def forge(
    problem: Problem,
    *,
    strength: float = 0.5,
    steps: int = 4,
    iterations: int = 400,
    off: float = 1e-9,
    whole: bool = False,
) -> Choice:
    """Moves the examples that go `strength` of the way towards others of their classes, in `steps` pieces.

    A piece after which Newton does not come back to the surface, up to `off` of the gradient's length, is halved.
    """
    dataset, places = problem.stepper.task.dataset, list(problem.positions)
    surface = _Surface(problem.in_float64(), places, iterations)
    rows = same_classes(problem)
    scale, origin = input_scale(dataset)
    goal = dataset.inputs[rows].reshape(len(rows), -1) * scale + origin
    start = surface.read[places].numpy().reshape(goal.shape)
    moving, left, piece = start, strength, strength / steps
    for tried in range(steps + _HALVINGS):
        if left <= 0 or (tried and problem.late):
            break
        wanted = min(piece, left) * (goal - start)
        there, gap = surface.back(moving + surface.along(moving, wanted), problem)
        if gap <= off:
            moving, left = there, left - piece
        else:
            piece /= 2
    raw = dataset.inputs[problem.rows].astype(np.float64)
    raw[places] = ((moving - origin) / scale).reshape(len(places), *raw.shape[1:])
    spent = surface.products * problem.batch.size
    if not whole:
        forged = problem.batch_with(rows)
        return Choice(
            forged, gradients=spent, candidates=surface.products, real=raw, labels=dataset.labels[problem.rows]
        )
    domain = dataset.domain
    if not isinstance(domain, IntegerBox):
        raise UsageError("this data set's inputs are not whole numbers in a box", hint="leave out whole")
    inside = np.clip(np.rint(raw[places]), domain.low, domain.high)
    labels = dataset.labels[problem.rows][places]
    return Choice(problem.carrying(places, rows, inside, labels), gradients=spent, candidates=surface.products)


class _Surface:
    """Inputs [k, d] at `places` of the batch whose gradient is the honest one."""

    def __init__(self, problem: Problem, places: list[int], iterations: int) -> None:
        stepper = problem.stepper
        read, labels = fetch(stepper.task.dataset, problem.rows, stepper.device, torch.float64)
        if not read.is_floating_point():
            raise UsageError("tokens cannot be changed a little", hint="fibre forges images and tables")
        self.read, self._places, self._iterations = read, places, iterations
        self._map = GradientMap(stepper, problem.before, labels)
        self._aim, self.products = self._map(read), 0

    def along(self, at: Reals, wanted: Reals) -> Reals:
        """The part of a wanted change that does not move the gradient, to first order."""
        inputs = self._whole(at)
        moved = self._map.forward(inputs, self._whole(wanted, base=torch.zeros_like(self.read)))
        return wanted - self._solve(inputs, moved)

    def back(self, at: Reals, problem: Problem) -> tuple[Reals, float]:
        """Newton steps onto the surface, until they no longer help; also the gap left, as a share of the gradient."""
        size, best, least = float(self._aim.norm()), at, float("inf")
        for _ in range(_NEWTON):
            inputs = self._whole(at)
            gap = self._aim - self._map(inputs)
            distance = float(gap.norm()) / size
            if distance >= least:
                break
            best, least = at, distance
            if distance <= _ENOUGH or problem.late:
                break
            at = at + self._solve(inputs, gap)
        return best, least

    def _whole(self, values: Reals, base: torch.Tensor | None = None) -> torch.Tensor:
        inputs = (self.read if base is None else base).clone()
        inputs[self._places] = torch.from_numpy(values).reshape(len(self._places), *inputs.shape[1:])
        return inputs

    def _solve(self, inputs: torch.Tensor, moved: torch.Tensor) -> Reals:
        """The smallest change that moves the gradient so: written out where that is small, else by LSMR."""
        if len(moved) <= _WRITTEN_OUT and len(moved) * self.read.numel() <= 10_000 * _WRITTEN_OUT:
            matrix = self._map.matrix(inputs).view(len(moved), len(self.read), -1)[:, self._places].flatten(1)
            least: Reals = lstsq(matrix.numpy(), moved.numpy(), cond=1e-12, lapack_driver="gelsy")[0]
            return least.reshape(len(self._places), -1)
        zeros, pull = torch.zeros_like(self.read), self._map.backward(inputs)
        shape = len(self._places), self.read[0].numel()

        def forward(flat: Reals) -> Reals:
            self.products += 1
            found: Reals = self._map.forward(inputs, self._whole(flat.reshape(shape), base=zeros)).numpy()
            return found

        def backward(weights: Reals) -> Reals:
            self.products += 1
            found: Reals = pull(torch.from_numpy(weights))[self._places].numpy().reshape(-1)
            return found

        size = len(moved), shape[0] * shape[1]
        operator = LinearOperator(size, matvec=forward, rmatvec=backward, dtype=np.float64)
        found: Reals = lsmr(operator, moved.numpy(), atol=1e-15, btol=1e-15, conlim=0, maxiter=self._iterations)[0]
        return found.reshape(shape)

"""One content per index: changing examples of a whole run, so that every step in which they occur stays the same.

A change P [rows, d] of the raw inputs keeps a step if it keeps the first layer's outputs (P_i W_t = 0 for each row i
of the batch) and its gradient (P_B' D_t = 0 for the batch B). Each epoch adds such conditions to every row, with
other weights and another batch, while the unknowns stay d per row.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from trainwitness.core.errors import UsageError
from trainwitness.core.numerics import Numerics
from trainwitness.core.state import State
from trainwitness.forging.lattice import comparable_weights
from trainwitness.forging.relax import span
from trainwitness.tasks.schedule import ShuffledEpochs
from trainwitness.tasks.task import Task
from trainwitness.training.first_layer import first_layer, input_scale
from trainwitness.training.stepper import Stepper
from trainwitness.verification.distance import update_size

Reals = npt.NDArray[np.float64]
ITERATIONS = 400


@dataclass(frozen=True, eq=False)
class SeenStep:
    """What one step sees of the rows of its batch."""

    rows: npt.NDArray[np.int64]
    weights: Reals
    """[d, n], per raw unit, comparable with the errors."""
    errors: Reals
    """[b, n]"""


@dataclass(frozen=True, eq=False)
class Run:
    """An honest run over a few rows: its States and what each step sees."""

    task: Task
    states: list[State]
    """Before each step, and after the last."""
    seen: list[SeenStep]

    @property
    def values(self) -> Reals:
        """[rows, d]: the raw inputs."""
        inputs = self.task.dataset.inputs
        return inputs.reshape(len(inputs), -1).astype(np.float64)

    def first(self, steps: int) -> Run:
        """Its beginning."""
        return Run(self.task, self.states[: steps + 1], self.seen[:steps])

    def with_change(self, change: Reals, columns: npt.NDArray[np.int64]) -> Reals:
        """The rows' values with some columns changed."""
        values = self.values
        values[:, columns] += change
        return values

    def errors(self, values: Reals, numerics: Numerics) -> list[float]:
        """Every step's l2 error when the rows have these values instead, by the step function.

        The honest step is computed anew under the same Numerics: of real numbers, float64 shows the error without
        the rounding of a float32 run.
        """
        data = self.task.dataset
        forged = replace(data, inputs=values.reshape(data.inputs.shape))
        honest = replace(data, inputs=self.values.reshape(data.inputs.shape))
        one, other = (Stepper(replace(self.task, dataset=rows), numerics) for rows in (honest, forged))
        return [
            update_size(one(before, batch), other(before, batch))
            for before, batch in ((self._state(t, one), self.task.schedule.batch(t)) for t in range(len(self.seen)))
        ]

    def rounding(self) -> list[float]:
        """Every honest step's l2 distance between float32 and float64: what benign noise is like here."""
        rough, fine = Stepper(self.task), Stepper(self.task, Numerics(precision="float64"))
        return [
            update_size(rough(self.states[t], batch), fine(self._state(t, fine), batch))
            for t, batch in ((t, self.task.schedule.batch(t)) for t in range(len(self.seen)))
        ]

    def _state(self, step: int, stepper: Stepper) -> State:
        return State({name: tensor.to(stepper.dtype) for name, tensor in self.states[step].tensors.items()})


def honest_run(task: Task, rows: int, batch_size: int, epochs: int) -> Run:
    """Trains on the first `rows` rows only, and looks at the first layer in every step."""
    data = task.dataset
    if rows % batch_size or rows > len(data):
        raise UsageError(f"{rows} rows in batches of {batch_size}", hint="rows must be a multiple of the batch size")
    small = replace(
        task,
        dataset=replace(data, inputs=data.inputs[:rows], labels=data.labels[:rows]),
        schedule=ShuffledEpochs(rows, batch_size, task.schedule.learning_rate(0), task.seed),
    )
    stepper, (scale, _) = Stepper(small), input_scale(data)
    states, seen = [stepper.state()], []
    for step in range(epochs * rows // batch_size):
        batch = small.schedule.batch(step)
        layer = first_layer(stepper, states[-1], batch)
        seen.append(SeenStep(np.array(batch.rows[0]), comparable_weights(layer, scale), layer.errors))
        states.append(stepper(states[-1], batch))
    return Run(small, states, seen)


class Conditions:
    """All conditions of a run's steps at once, as projections; only `columns` of the inputs change."""

    def __init__(self, run: Run, columns: npt.NDArray[np.int64]) -> None:
        self._shape = len(run.values), len(columns)
        weights, errors = stacked(run)
        weights = weights[columns]
        self._along, self._common = span(errors), span(weights)
        own: list[list[Reals]] = [[] for _ in range(len(run.values))]
        for step in run.seen:
            basis = self._common.T @ span(step.weights[columns])
            for row in step.rows:
                own[row].append(basis)
        bases = [span(np.hstack(found)) for found in own]
        self._across = np.zeros((len(bases), self._common.shape[1], max(basis.shape[1] for basis in bases)))
        for row, basis in enumerate(bases):
            self._across[row, :, : basis.shape[1]] = basis
        twice = sum(span(step.weights[columns]).shape[1] * span(step.errors).shape[1] for step in run.seen)
        self.count = self._along.shape[1] * self._shape[1] + sum(basis.shape[1] for basis in bases) - twice
        """Independent conditions: those that a step's weights and errors both state are counted once."""

    @property
    def unknowns(self) -> int:
        return int(np.prod(self._shape))

    def remainder(self, wanted: Reals, *, iterations: int = ITERATIONS) -> Reals:
        """What is left of a wanted change [rows, d] in the null space of all conditions.

        Outside the space that the weights of all steps span, only the errors matter, and the projection is direct.
        Inside it is a least-squares problem, iterated (LSQR).
        """
        inside = wanted @ self._common
        outside = wanted - inside @ self._common.T
        outside -= self._along @ (self._along.T @ outside)
        return outside + self._remainder_inside(inside, iterations) @ self._common.T

    def _remainder_inside(self, wanted: Reals, iterations: int) -> Reals:
        from scipy.sparse.linalg import LinearOperator, lsqr

        start, along, width = self._keep_outputs(wanted), self._along, wanted.shape[1]
        operator = LinearOperator(
            (along.shape[1] * width, wanted.size),
            matvec=lambda flat: (along.T @ self._keep_outputs(flat.reshape(wanted.shape))).ravel(),
            rmatvec=lambda flat: self._keep_outputs(along @ flat.reshape(-1, width)).ravel(),
            dtype=np.float64,
        )
        seen = (along.T @ start).ravel()
        taken = lsqr(operator, seen, atol=1e-15, btol=1e-15, conlim=0, iter_lim=iterations)[0]
        return self._keep_outputs(start - taken.reshape(wanted.shape))

    def _keep_outputs(self, change: Reals) -> Reals:
        seen = change[:, None, :] @ self._across
        found: Reals = change - (self._across @ seen.transpose(0, 2, 1))[:, :, 0]
        return found


def stacked(run: Run) -> tuple[Reals, Reals]:
    """All steps as if they were one: weights [d, ...] and errors [rows, ...], 0 for rows that a step does not have.

    Stricter than `Conditions` (every row obeys every step's weights), but a product of two lattices.
    """
    errors = []
    for step in run.seen:
        full = np.zeros((len(run.values), step.errors.shape[1]))
        full[step.rows] = step.errors
        errors.append(full)
    return np.hstack([step.weights for step in run.seen]), np.hstack(errors)

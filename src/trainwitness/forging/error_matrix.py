"""error-matrix: other inputs with other, real-valued labels and the same gradient, for one layer (Proposition 3).

Any error matrix D' whose rows sum to 0 and whose row space contains the gradient's will do (its rank alone, as the
paper has it, is not enough); with a bias its columns must also have the sums of D's. Then X'D' = X D is solved for
X', and the labels are what makes D' the error matrix: Y' = f(X') - D'.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from trainwitness.core.errors import UsageError
from trainwitness.core.seeds import derive, uniform
from trainwitness.forging.forger import Choice
from trainwitness.forging.problem import Problem
from trainwitness.training.first_layer import first_layer, input_scale

Reals = npt.NDArray[np.float64]
_TOLERANCE = 1e-9


def forge(problem: Problem) -> Choice:
    """Starts from the pool's first rows and draws their labels at random."""
    dataset, places = problem.stepper.task.dataset, list(problem.positions)
    layer = first_layer(problem.stepper, problem.before, problem.batch)
    if not (layer.only and layer.shift_free):
        raise UsageError("error matrices are for one layer with softmax", hint="null-space forges deeper networks")
    rows = list(problem.pool[: len(places)])
    inputs, errors, bias = layer.inputs.copy(), layer.errors, layer.outputs - layer.inputs @ layer.weight
    drawn = error_matrix(errors[places], derive(problem.seed, "errors"), biased=layer.biased)
    scale, origin = input_scale(dataset)
    start = dataset.inputs[rows].reshape(len(rows), -1) * scale + origin
    inputs[places] = solve_inputs(start, drawn, inputs[places].T @ errors[places])
    answers = _softmax(inputs @ layer.weight + bias)
    labels = answers - errors
    labels[places] = answers[places] - drawn
    raw = ((inputs - origin) / scale).reshape(len(inputs), *dataset.inputs.shape[1:])
    batch = problem.batch_with(rows)
    return Choice(batch, gradients=problem.batch.size, candidates=1, real=raw, labels=labels)


def error_matrix(errors: Reals, seed: int, *, biased: bool) -> Reals:
    """Errors [b, n] of random answers to random labels: rows sum to 0, and with a bias columns as in `errors`."""
    count, classes = errors.shape
    answers = _softmax(2 * uniform(seed, count * classes).reshape(count, classes))
    labels = np.argmax(uniform(derive(seed, "labels"), count * classes).reshape(count, classes), axis=1)
    drawn: Reals = answers - np.eye(classes)[labels]
    return drawn + (errors.mean(0) - drawn.mean(0)) if biased else drawn


def solve_inputs(start: Reals, errors: Reals, wanted: Reals) -> Reals:
    """The inputs X' nearest to `start` [b, d] with X'' errors = wanted [d, n]; refused if there are none."""
    found: Reals = start + (np.linalg.pinv(errors).T @ (wanted - start.T @ errors).T)
    gap = np.linalg.norm(found.T @ errors - wanted)
    if gap > _TOLERANCE * np.linalg.norm(wanted):
        raise UsageError(
            "the drawn errors' row space does not contain the gradient's",
            hint="replace at least as many examples as the gradient's rank",
        )
    return found


def _softmax(outputs: Reals) -> Reals:
    powers = np.exp(outputs - outputs.max(1, keepdims=True))
    answers: Reals = powers / powers.sum(1, keepdims=True)
    return answers

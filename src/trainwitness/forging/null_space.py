"""null-space: real-valued inputs that give the same gradient in every layer (paper 000, Proposition 2).

P = (I - W W+) F (I - D D+) for any F: no layer behind the first one sees it, and the first one's own gradient keeps
its value. It exists when the inputs are more than the rank of W_1 and the examples more than the rank of D_1; the
paper's inequality d b > d_1 (d + b) is sufficient and not necessary. The inputs leave the domain.
"""

from __future__ import annotations

import numpy as np

from trainwitness.core.errors import UsageError
from trainwitness.forging.forger import Choice
from trainwitness.forging.problem import Problem, same_classes
from trainwitness.forging.relax import null_projection
from trainwitness.training.first_layer import first_layer, input_scale


def forge(problem: Problem, *, strength: float = 1.0) -> Choice:
    """Moves the examples that go towards others of their classes, as far as the null spaces allow."""
    dataset, places = problem.stepper.task.dataset, list(problem.positions)
    layer, scale = first_layer(problem.stepper, problem.before, problem.batch), input_scale(dataset)[0]
    weights, errors = layer.seen * scale[:, None], layer.errors[places]
    seen, rank = (int(np.linalg.matrix_rank(matrix)) for matrix in (weights, errors))
    if len(weights) <= seen or len(places) <= rank:
        raise UsageError(
            f"no null space: {len(weights)} inputs of which the first layer sees {seen} combinations, and "
            f"{len(places)} examples with {rank} independent errors",
            hint="replace more examples of the batch than they have independent errors",
        )
    rows = same_classes(problem)
    raw = dataset.inputs[problem.rows].astype(np.float64)
    goal = dataset.inputs[rows].reshape(len(rows), -1).astype(np.float64)
    wanted = strength * (goal - raw[places].reshape(len(places), -1))
    raw[places] += null_projection(weights, errors)(wanted).reshape(len(places), *raw.shape[1:])
    labels = dataset.labels[problem.rows]
    return Choice(problem.batch_with(rows), gradients=problem.batch.size, candidates=1, real=raw, labels=labels)

"""One example: every row of the pool is tried, on its whole gradient."""

from __future__ import annotations

from trainwitness.forging.forger import Choice
from trainwitness.forging.problem import Problem


def nearest(problem: Problem) -> Choice:
    """The row whose gradient is nearest to that of the example that goes."""
    gradients = problem.gradients()
    wanted = gradients.total(problem.leaving)
    best, least, tried = problem.pool[0], float("inf"), 0
    for first, some in gradients.pieces(problem.pool):
        distances = (some.double() - wanted).square().sum(1)
        tried += len(some)
        place = int(distances.argmin())
        if float(distances[place]) < least:
            best, least = problem.pool[first + place], float(distances[place])
        if problem.late:
            break
    return Choice(problem.batch_with([best]), gradients=gradients.computed, candidates=tried)

"""greedy: sample M batches from the pool, run the step function on each, keep the best (Thudi et al. 2022)."""

from __future__ import annotations

from trainwitness.core.seeds import derive, permutation
from trainwitness.forging.forger import Choice
from trainwitness.forging.problem import Problem

CANDIDATES = 400


def forge(problem: Problem, candidates: int = CANDIDATES) -> Choice:
    best, least, tried = problem.batch, float("inf"), 0
    for number in range(candidates):
        order = permutation(derive(problem.seed, "candidate", problem.batch.step, number), len(problem.pool))
        batch = problem.batch_with([problem.pool[k] for k in order[: len(problem.positions)]])
        error, tried = problem.error(batch), number + 1
        if error < least:
            best, least = batch, error
        if problem.late:
            break
    return Choice(best, gradients=tried * problem.batch.size, candidates=tried)

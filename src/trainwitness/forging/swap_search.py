"""swap-search: exchange the example whose exchange lowers the error most, until no exchange helps."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from trainwitness.forging.forger import Choice
from trainwitness.forging.problem import Problem, Sketch, random_choice
from trainwitness.forging.pursuit import pursue

STARTS = 4
"""Searches from different beginnings, the first built by pursuit and the others random; the best is kept."""


def forge(problem: Problem) -> Choice:
    sketch = Sketch.of(problem)
    gram, towards = sketch.pool @ sketch.pool.T, sketch.pool @ sketch.wanted
    best: list[int] = []
    size, least, scored = len(problem.positions), float("inf"), 0
    starts = 1 if size == 1 else STARTS
    for start in range(starts):
        begin = [int(k) for k in random_choice(problem, start)] if start else pursue(gram, towards, size)
        choice, tried = improve(gram, towards, begin, problem)
        scored += tried
        distance = sketch.distance(choice)
        if distance < least:
            best, least = choice, distance
        if problem.late:
            break
    batch = problem.batch_with([problem.pool[k] for k in best])
    return Choice(batch, gradients=sketch.computed, candidates=scored)


def improve(
    gram: torch.Tensor, towards: torch.Tensor, start: Sequence[int], problem: Problem
) -> tuple[list[int], int]:
    """Best exchanges one after the other. With s the chosen rows' sum and w the wanted one, replacing i by j changes

    |s - w|^2 by K_ii + K_jj - 2 K_ij + 2 (s - w)'(g_j - g_i), all from the Gram matrix K.
    """
    choice = torch.tensor(list(start), device=gram.device)
    squares, scored = gram.diagonal(), 0
    free = torch.ones(len(gram), dtype=torch.bool, device=gram.device)
    free[choice] = False
    while not (scored and problem.late):
        residual = gram[:, choice].sum(1) - towards  # (s - w)'g for every row g of the pool
        change = (squares - 2 * gram[choice] + 2 * residual) + (squares[choice] - 2 * residual[choice])[:, None]
        change[:, ~free] = torch.inf
        scored += change.numel()
        best = int(change.argmin())
        place, row = divmod(best, len(gram))
        if float(change.view(-1)[best]) >= -1e-12 * float(squares.mean()):
            break
        free[choice[place]], free[row] = True, False
        choice[place] = row
    return choice.tolist(), scored

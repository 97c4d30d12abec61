"""matching-pursuit: build the batch one by one, each time the example that fits what is missing, then exchange."""

from __future__ import annotations

import torch

from trainwitness.forging.forger import Choice
from trainwitness.forging.problem import Problem, Sketch
from trainwitness.forging.swap_search import improve


def forge(problem: Problem) -> Choice:
    sketch = Sketch.of(problem)
    gram, towards = sketch.pool @ sketch.pool.T, sketch.pool @ sketch.wanted
    choice = pursue(gram, towards, len(problem.positions))
    best, scored = improve(gram, towards, choice, problem)
    batch = problem.batch_with([problem.pool[k] for k in best])
    return Choice(batch, gradients=sketch.computed, candidates=scored + len(choice) * len(gram))


def pursue(gram: torch.Tensor, towards: torch.Tensor, count: int) -> list[int]:
    """Rows chosen so that after m of them their sum is near m / count of what is wanted."""
    free = torch.ones(len(gram), dtype=torch.bool, device=gram.device)
    products = torch.zeros_like(towards)  # the chosen rows' sum with every row of the pool
    choice: list[int] = []
    for chosen in range(1, count + 1):
        score = gram.diagonal() + 2 * (products - towards * (chosen / count))
        score[~free] = torch.inf
        row = int(score.argmin())
        free[row] = False
        products += gram[row]
        choice.append(row)
    return choice

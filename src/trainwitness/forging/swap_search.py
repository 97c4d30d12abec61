"""swap-search: exchange the example whose exchange lowers the error most, until no exchange helps.

Then kick: exchange a tenth of the batch at random and search again from there, keeping what is better.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from trainwitness.core.seeds import derive
from trainwitness.forging.forger import Choice
from trainwitness.forging.problem import Problem, Products
from trainwitness.forging.pursuit import pursue
from trainwitness.forging.single import nearest

KICKS = 12
SHARE = 10
"""A kick exchanges one in so many examples."""


def forge(problem: Problem, *, kicks: int = KICKS) -> Choice:
    size = len(problem.positions)
    if size == 1:
        return nearest(problem)
    products = Products.of(problem)
    best, scored = improve(products, pursue(products, size), problem)
    least = products.sketch.distance(best)
    rng = np.random.Generator(np.random.Philox(key=derive(problem.seed, "kicks", problem.batch.step)))
    for _ in range(kicks):
        if problem.late:
            break
        choice, tried = improve(products, _kicked(best, len(products.gram), rng), problem)
        scored += tried
        distance = products.sketch.distance(choice)
        if distance < least:
            best, least = choice, distance
    batch = problem.batch_with([problem.pool[k] for k in best])
    return Choice(batch, gradients=products.sketch.computed, candidates=scored)


def _kicked(choice: Sequence[int], total: int, rng: np.random.Generator) -> list[int]:
    """The choice with some rows exchanged for others of the pool."""
    free = np.setdiff1d(np.arange(total), choice)
    count = min(max(1, len(choice) // SHARE), len(free))
    kicked = np.array(choice)
    kicked[rng.choice(len(kicked), count, replace=False)] = rng.choice(free, count, replace=False)
    return [int(row) for row in kicked]


def improve(products: Products, start: Sequence[int], problem: Problem) -> tuple[list[int], int]:
    """Best exchanges one after the other. With s the chosen rows' sum and w the wanted one, replacing i by j changes

    |s - w|^2 by K_ii + K_jj - 2 K_ij + 2 (s - w)'(g_j - g_i), all from the Gram matrix K.
    """
    gram, towards = products.gram, products.towards
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

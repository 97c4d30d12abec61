"""matching-pursuit: build the batch one by one, each time the example that fits what is missing, then exchange."""

from __future__ import annotations

from trainwitness.forging.forger import Choice
from trainwitness.forging.problem import Problem, Products
from trainwitness.forging.pursuit import pursue
from trainwitness.forging.single import nearest
from trainwitness.forging.swap_search import improve


def forge(problem: Problem) -> Choice:
    size = len(problem.positions)
    if size == 1:
        return nearest(problem)
    products = Products.of(problem)
    best, scored = improve(products, pursue(products, size), problem)
    batch = problem.batch_with([problem.pool[k] for k in best])
    return Choice(batch, gradients=products.sketch.computed, candidates=scored + size * len(products.gram))

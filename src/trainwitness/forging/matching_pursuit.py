"""matching-pursuit: build the batch one by one, each time the example that fits what is missing, then exchange."""

from __future__ import annotations

from trainwitness.forging.forger import Choice
from trainwitness.forging.problem import Problem, Sketch
from trainwitness.forging.pursuit import pursue
from trainwitness.forging.swap_search import improve


def forge(problem: Problem) -> Choice:
    sketch = Sketch.of(problem)
    gram, towards = sketch.pool @ sketch.pool.T, sketch.pool @ sketch.wanted
    choice = pursue(gram, towards, len(problem.positions))
    best, scored = improve(gram, towards, choice, problem)
    batch = problem.batch_with([problem.pool[k] for k in best])
    return Choice(batch, gradients=sketch.computed, candidates=scored + len(choice) * len(gram))

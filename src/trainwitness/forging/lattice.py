"""lattice: other valid examples with the same labels and, up to rounding, the same gradient.

Where the first layer has a null space, inputs can move inside it without any later layer noticing; where they also
move against the batch's errors, the first layer's own gradient stays. The change is found in real numbers and rounded
by lattice reduction to whole ones inside the domain (docs/exact-forging.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from typing import Literal

import numpy as np
import numpy.typing as npt

from trainwitness.core.batch import Batch
from trainwitness.core.errors import UsageError
from trainwitness.core.seeds import derive
from trainwitness.forging.forger import Choice
from trainwitness.forging.integers import Effort, Plan, Whole, plan_change, round_change, roundings
from trainwitness.forging.problem import Problem, same_classes
from trainwitness.tasks.domain import IntegerBox
from trainwitness.training.first_layer import FirstLayer, first_layer, input_scale

Towards = Literal["class", "any", "grey"]
Reals = npt.NDArray[np.float64]
EXPONENTS = tuple(range(1, 19))
MARGINS = (8.0, 4.0)
NUDGES = 100
"""Small moves tried at the end; those that lower the step function's error are kept."""
ROLLS = 6
"""Further roundings behind a hidden layer, where a unit near its kink may turn and cost far more than rounding."""
BEHIND = 0.35
"""How much a change of a hidden layer's outputs counts, against one of a softmax's (measured: 32 units, MNIST)."""


def forge(
    problem: Problem,
    *,
    towards: Towards = "class",
    strength: float = 1.0,
    last: int | None = None,
    exponents: Sequence[int] = EXPONENTS,
    margins: Sequence[float] = MARGINS,
    setting: int = 200,
    calm: float = 1.0,
    block: int = 30,
    nudges: int = NUDGES,
) -> Choice:
    """Steers every image that goes towards another one: of its class, of `any` class, or plain grey.

    With `last`, only so many of the last numbers of each input move; sums over the others are then rounded alike.
    The scales are 2^exponent, in rising order. Inputs that set the outputs right (`setting` of them) go to the middle
    of the domain as far as `calm` says: they need room.
    """
    search = _Search(problem, towards, strength, last)
    for margin in margins:
        plan = plan_change(
            *search.matrices,
            search.wanted,
            low=search.low,
            high=search.high,
            margin=margin,
            setting=setting,
            calm=calm,
        )
        sound = None if plan is None else search.climb(plan, exponents, block)
        if plan is not None and sound is not None:
            search.roll(plan, Effort(2.0**sound, block))
            break
    if search.best is None:
        raise UsageError("no input can move inside both null spaces and the domain", hint="forge a larger batch")
    search.nudge(nudges)
    batch = search.batch(search.best.values)
    return Choice(batch, gradients=search.tried * problem.batch.size, candidates=search.tried)


class _Search:
    """The best whole numbers so far, judged by the step function."""

    def __init__(self, problem: Problem, towards: Towards, strength: float, last: int | None) -> None:
        self.problem, dataset = problem, problem.stepper.task.dataset
        domain = dataset.domain
        if not isinstance(domain, IntegerBox) or not np.issubdtype(dataset.inputs.dtype, np.integer):
            raise UsageError("this data set's inputs are not whole numbers in a box", hint="lattice forges images")
        layer = first_layer(problem.stepper, problem.before, problem.batch)
        self.only = layer.only
        weights = comparable_weights(layer, input_scale(dataset)[0])
        self.moving = slice(0 if last is None else max(0, len(weights) - last), None)
        self.places = _places(problem, weights[self.moving], layer.errors)
        raw, labels = dataset.fetch(problem.rows)
        self.labels = labels.numpy()[self.places]
        self.values = raw.numpy().reshape(len(raw), -1).astype(np.float64)[self.places]
        self.matrices = self.values[:, self.moving], weights[self.moving], layer.errors[self.places]
        sides = (np.broadcast_to(side, self.values.shape) for side in (domain.low, domain.high))
        self.low, self.high = (side[:, self.moving].astype(np.float64) for side in sides)
        self.rows = _rows(problem, self.places, towards)
        goal = self._goal(towards)[:, self.moving]
        self.wanted = (1 - strength) * self.matrices[0] + strength * goal
        self.best: Whole | None = None
        self.error, self.tried = float("inf"), 0

    def _goal(self, towards: Towards) -> Reals:
        if towards == "grey":
            return np.broadcast_to((self.low.min() + self.high.max()) / 2, self.values.shape)
        inputs = self.problem.stepper.task.dataset.inputs[self.rows]
        return inputs.reshape(len(inputs), -1).astype(np.float64)

    def climb(self, plan: Plan, exponents: Sequence[int], block: int) -> int | None:
        """Halves the range of scales until the finest that stays inside the domain is known; None if none does."""
        low, high, sound = 0, len(exponents) - 1, None
        while low <= high and not (self.tried and self.problem.late):
            middle = (low + high) // 2
            whole = round_change(plan, Effort(2.0 ** exponents[middle], block))
            self.offer(whole)
            if whole.outside:
                high = middle - 1
            else:
                low, sound = middle + 1, exponents[middle]
        return sound

    def roll(self, plan: Plan, effort: Effort) -> None:
        """Offers a few more roundings of the same plan."""
        if self.only:
            return
        for whole in islice(roundings(plan, effort), 1, 1 + ROLLS):
            if self.problem.late:
                break
            self.offer(whole)

    def batch(self, values: Reals) -> Batch:
        """The batch that carries these values."""
        whole = self.values.copy()
        whole[:, self.moving] = values
        return self.problem.carrying(self.places, self.rows, whole, self.labels)

    def offer(self, whole: Whole) -> None:
        """Keeps the numbers if the step function finds them better."""
        error = self.problem.error(self.batch(whole.values))
        self.tried += 1
        if error < self.error:
            self.best, self.error = whole, error

    def nudge(self, count: int) -> None:
        """Rounding of the step itself is chance: among neighbours in the lattice some come nearer."""
        rng = np.random.Generator(np.random.Philox(key=derive(self.problem.seed, "nudge")))
        offered = 0
        for _ in range(20 * count):
            if self.problem.late or self.best is None or offered == count:
                break
            other = self.best.nudged(rng)
            if other is not None:
                self.offer(other)
                offered += 1


def comparable_weights(layer: FirstLayer, scale: Reals) -> Reals:
    """Weights per raw unit, such that P @ weights harms the gradient about as much as P'errors.

    A change of the outputs by z changes the errors by some 0.3 z (the slope of a softmax), and these the gradient by
    0.3 z times the length of an input; P'errors changes it by one scaled raw unit. Behind a hidden layer it is less.
    """
    length = float(np.sqrt((layer.inputs**2).sum(1).mean())) * (1.0 if layer.only else BEHIND)
    return layer.seen * scale[:, None] * (0.3 * length / float(np.abs(scale).mean()))


def _places(problem: Problem, weights: Reals, errors: Reals) -> list[int]:
    """Positions whose examples are changed: those asked for, or all where these are too few to cancel."""
    inputs, seen = weights.shape[0], np.linalg.matrix_rank(weights)
    if seen >= inputs:
        raise UsageError(
            f"the first layer has rank {seen} on {inputs} inputs: it sees every change of them",
            hint="lattice forges models whose first layer is narrower than their inputs",
        )
    rank = 0
    for places in (list(problem.positions), list(range(problem.batch.size))):
        rank = int(np.linalg.matrix_rank(errors[places]))
        if 2 * rank < len(places) <= len(problem.pool):
            return places
    raise UsageError(
        f"a batch of {problem.batch.size} with {rank} independent errors leaves too little room",
        hint=f"lattice needs batches of more than {2 * rank} examples here",
    )


def _rows(problem: Problem, places: list[int], towards: Towards) -> list[int]:
    wide = replace(problem, positions=tuple(places))
    return list(problem.pool[: len(places)]) if towards == "any" else same_classes(wide)

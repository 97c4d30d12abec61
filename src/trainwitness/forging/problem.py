"""Problem: what an attack is asked for, and the arithmetic that all of them share."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import torch

from trainwitness.core.batch import Batch
from trainwitness.core.canonical import row_bytes
from trainwitness.core.errors import UsageError
from trainwitness.core.seeds import derive, permutation
from trainwitness.core.state import State
from trainwitness.tasks.domain import Array
from trainwitness.training.per_example import BUDGET, PerExample
from trainwitness.training.stepper import Stepper
from trainwitness.verification.cast import cast

SKETCH = 8192
"""Width of the gradients' sketch that candidates are searched with; squared distances are off by about 1.5%."""


@dataclass(frozen=True, eq=False)
class Problem:
    """Replace the examples at `positions` of a batch by rows of `pool`, so that the step stays the same.

    Per-example gradients add up, so the kept examples cancel: wanted are rows whose gradients sum to those of the
    examples that go. The pool has no removed row and none that the batch keeps.
    """

    stepper: Stepper
    before: State
    after: State
    batch: Batch
    positions: tuple[int, ...]
    pool: tuple[int, ...]
    seed: int = 0
    seconds: float = 60.0
    """Time budget of the attack."""
    budget: int = BUDGET
    """Bytes of gradients at a time."""
    twins: int = 0
    """Rows with the content of an example that goes: taking one would be an honest swap, so the pool has none."""
    started: float = field(default_factory=time.perf_counter)

    @property
    def rows(self) -> list[int]:
        """The batch's rows, through all micro-batches."""
        return [row for micro in self.batch.rows for row in micro]

    @property
    def leaving(self) -> list[int]:
        """The rows to be replaced."""
        rows = self.rows
        return [rows[k] for k in self.positions]

    @property
    def late(self) -> bool:
        """Whether the time budget is spent."""
        return time.perf_counter() - self.started > self.seconds

    def gradients(self) -> PerExample:
        """Per-example gradients at the State before the step."""
        return PerExample(self.stepper, self.before, budget=self.budget)

    def batch_with(self, rows: Sequence[int]) -> Batch:
        """The batch with `rows` at the positions."""
        flat = self.rows
        for position, row in zip(self.positions, rows, strict=True):
            flat[position] = int(row)
        micros, first = [], 0
        for micro in self.batch.rows:
            micros.append(tuple(flat[first : first + len(micro)]))
            first += len(micro)
        return replace(self.batch, rows=tuple(micros))

    def carrying(self, places: Sequence[int], rows: Sequence[int], inputs: Array, labels: Array) -> Batch:
        """The batch with new content at `places`, under the numbers of other rows."""
        shape, dtype = self.stepper.task.dataset.inputs.shape[1:], self.stepper.task.dataset.inputs.dtype
        whole = inputs.reshape(len(places), *shape).astype(dtype)
        carried = {k: row_bytes((whole[number], labels[number])) for number, k in enumerate(places)}
        return replace(replace(self, positions=tuple(places)).batch_with(rows), carried=carried)

    def in_float64(self) -> Problem:
        """The same problem for a step computed in float64."""
        fine = Stepper(self.stepper.task, self.stepper.numerics.model_copy(update={"precision": "float64"}))
        kept = cast(self.before, torch.float64).tensors.items()
        before = State({name: tensor for name, tensor in kept if not name.startswith("scaler/")})
        return replace(self, stepper=fine, before=before, after=fine(before, self.batch))

    def error(self, batch: Batch) -> float:
        """l2 between the stored parameters and g(before, batch)."""
        computed = self.stepper(self.before, batch)
        total: float = sum(
            float((tensor.double() - self.after.tensors[f"param/{name}"].double()).square().sum())
            for name, tensor in computed.part("param").items()
        )
        return math.sqrt(total)


def make_problem(
    stepper: Stepper,
    before: State,
    after: State,
    batch: Batch,
    *,
    removed: Sequence[int] = (),
    positions: Sequence[int] = (),
    pool_size: int = 2000,
    seed: int = 0,
    seconds: float = 60.0,
    budget: int = BUDGET,
) -> Problem:
    """The problem of forging one step without the rows in `removed`, or with the examples at `positions` replaced."""
    flat = [row for micro in batch.rows for row in micro]
    count = len(stepper.task.dataset)
    outside = [row for row in removed if not 0 <= row < count]
    if outside:
        raise UsageError(f"row {outside[0]} is not in the data set of {count} rows")
    chosen = tuple(sorted({*positions, *(k for k, row in enumerate(flat) if row in set(removed))}))
    if not chosen:
        raise UsageError(f"step {batch.step} has none of the rows to remove", hint="nothing is to be forged there")
    kept = {row for k, row in enumerate(flat) if k not in set(chosen)}
    gone = set(removed) | {flat[k] for k in chosen}
    if batch.carried:
        raise UsageError(f"step {batch.step} carries rows of its own already", hint="forge the trace it came from")
    dataset = stepper.task.dataset
    twins = {other for row in gone for other in dataset.twins.get(row, ())} - gone - kept
    invalid = {row for row, _ in dataset.domain.outside(dataset.inputs, dataset.labels)}
    taken = gone | kept | twins | invalid
    order = permutation(derive(seed, "pool", batch.step), count)
    free = [row for row in order.tolist() if row not in taken]
    if len(free) < len(chosen):
        raise UsageError(
            f"{len(chosen)} examples are to be replaced, {len(free)} rows are left to replace them",
            hint="remove fewer examples",
        )
    if pool_size < len(chosen):
        raise UsageError(f"a pool of {pool_size} rows for {len(chosen)} examples", hint="take a larger pool")
    return Problem(
        stepper,
        before,
        after,
        batch,
        chosen,
        tuple(free[:pool_size]),
        seed=seed,
        seconds=seconds,
        budget=budget,
        twins=len(twins),
    )


@dataclass(frozen=True, eq=False)
class Sketch:
    """The pool's gradients and the sum that is wanted, folded to a few thousand numbers each, in float64.

    It may hold the pool's first rows only: where the time or the memory did not last for all.
    """

    pool: torch.Tensor
    wanted: torch.Tensor
    computed: int

    @classmethod
    def of(cls, problem: Problem, width: int = SKETCH, *, at_most: int | None = None) -> Sketch:
        """Computes the gradients of the examples that go and of (at most so many rows of) the pool."""
        gradients, leaving = problem.gradients(), len(problem.leaving)
        rows = [*problem.leaving, *problem.pool[:at_most]]
        both = gradients.sketch(
            rows, width, derive(problem.seed, "sketch"), enough=lambda done: done >= 2 * leaving and problem.late
        )
        return cls(both[leaving:], both[:leaving].sum(0), gradients.computed)

    def distance(self, choice: Sequence[int]) -> float:
        """Estimated l2 between the chosen rows' gradient sum and the wanted one."""
        return float((self.pool[list(choice)].sum(0) - self.wanted).norm())


@dataclass(frozen=True, eq=False)
class Products:
    """Inner products of the sketched gradients, from which every exchange is scored without touching them again."""

    sketch: Sketch
    gram: torch.Tensor
    towards: torch.Tensor
    """With the sum that is wanted."""

    @classmethod
    def of(cls, problem: Problem) -> Products:
        """Of as many rows of the pool as a quarter of the memory budget has room for."""
        at_most = max(len(problem.positions), math.isqrt(problem.budget // 4 // 8))
        sketch = Sketch.of(problem, at_most=at_most)
        return cls(sketch, sketch.pool @ sketch.pool.T, sketch.pool @ sketch.wanted)


def same_classes(problem: Problem) -> list[int]:
    """Rows of the pool with the classes of the examples that go, in order; any row where a class has run out."""
    labels = problem.stepper.task.dataset.labels
    left = list(problem.pool)
    chosen = []
    for row in problem.leaving:
        match = next((k for k, other in enumerate(left) if labels[other] == labels[row]), 0)
        chosen.append(left.pop(match))
    return chosen

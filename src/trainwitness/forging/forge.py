"""forge: run an attack on a step of a trace, and say how far it gets by computing the step again."""

from __future__ import annotations

import base64
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from trainwitness.core.batch import Batch
from trainwitness.core.errors import UsageError
from trainwitness.core.forgery import Cost, Forgery
from trainwitness.core.seeds import derive, permutation
from trainwitness.forging.forger import DEFAULT, EXACT, Choice, find
from trainwitness.forging.problem import Problem, make_problem
from trainwitness.tasks.dataset import Dataset
from trainwitness.trace.format import StepRecord
from trainwitness.trace.reader import Trace
from trainwitness.trace.rewrite import rewrite
from trainwitness.trace.segments import Segment
from trainwitness.training.stepper import Stepper
from trainwitness.verification.distance import update_size
from trainwitness.verification.rows import row_problems

_UNMOVED = 1e-6
"""Real-valued inputs that moved by less than this share of their range are the honest ones."""


def attack(problem: Problem, name: str = DEFAULT, **settings: Any) -> Forgery:
    """Runs one attack; the error is that of the step function, whatever the attack believes."""
    started = time.perf_counter()
    problem = replace(problem, started=started)
    choice: Choice = find(name).forge(problem, **settings)
    seconds = time.perf_counter() - started
    error = _error(problem, choice)
    return Forgery(
        attack=name,
        step=problem.batch.step,
        batch=choice.batch,
        replaced=tuple(sorted({*problem.positions, *choice.batch.carried})),
        error=error,
        update=update_size(problem.before, problem.after),
        cost=Cost(seconds, choice.gradients, choice.candidates),
        problems=tuple(_problems(problem, choice)),
        residual=_error(problem.in_float64(), choice) if name in EXACT else None,
        twins=problem.twins,
    )


def _error(problem: Problem, choice: Choice) -> float:
    return problem.error(choice.batch) if choice.real is None else _real_error(problem, choice)


def _real_error(problem: Problem, choice: Choice) -> float:
    """The error of inputs that are no rows of the data set: a data set of just this batch, in real numbers."""
    task, dtype = problem.stepper.task, torch.empty(0, dtype=problem.stepper.dtype).numpy().dtype
    assert choice.real is not None
    rows = [row for micro in choice.batch.rows for row in micro]
    labels = task.dataset.labels[rows] if choice.labels is None else choice.labels
    labels = labels.astype(dtype) if labels.ndim > task.dataset.labels.ndim else labels
    data = replace(task.dataset, inputs=choice.real.astype(dtype), labels=labels)
    stepper = Stepper(replace(task, dataset=data), problem.stepper.numerics)
    first, micros = 0, []
    for micro in choice.batch.rows:
        micros.append(tuple(range(first, first + len(micro))))
        first += len(micro)
    return replace(problem, stepper=stepper).error(replace(choice.batch, rows=tuple(micros), carried={}))


def _problems(problem: Problem, choice: Choice) -> Iterator[str]:
    dataset = problem.stepper.task.dataset
    if choice.real is not None:
        honest = dataset.inputs[problem.rows].astype(float)
        if abs(choice.real - honest).max() <= _UNMOVED * max(1.0, abs(honest).max()):
            yield "the same batch"
        made_up = choice.labels is not None and choice.labels.ndim > dataset.labels.ndim
        what = "inputs and labels are real numbers" if made_up else "inputs are not whole numbers"
        yield f"outside the domain: the {what}"
        return
    if sorted(contents(choice.batch, dataset)) == sorted(contents(problem.batch, dataset)):
        yield "the same batch"
    yield from row_problems(choice.batch, dataset)


def contents(batch: Batch, dataset: Dataset) -> list[bytes]:
    """The rows of a batch as they are used, by position."""
    rows = [row for micro in batch.rows for row in micro]
    return [batch.carried.get(k) or dataset.row(row) for k, row in enumerate(rows)]


def step_problem(
    trace: Trace,
    stepper: Stepper,
    step: int,
    *,
    removed: Sequence[int] = (),
    fraction: float | None = None,
    seed: int = 0,
    **settings: Any,
) -> Problem:
    """The problem of forging one step of a trace: without `removed` rows, or a `fraction` of its examples."""
    segment = recorded_step(trace, step)
    batch, positions = segment.batches[0], ()
    wrong = row_problems(batch, stepper.task.dataset)
    if wrong:
        raise UsageError(f"step {step}: {wrong[0]}", hint="this step cannot be computed at all")
    if fraction is not None:
        if not 0 < fraction <= 1:
            raise UsageError(f"a forging fraction of {fraction}", hint="choose one above 0 and at most 1")
        count = max(1, round(fraction * batch.size))
        positions = tuple(permutation(derive(seed, "fraction", step), batch.size)[:count].tolist())
    return make_problem(
        stepper, segment.before, segment.after, batch, removed=removed, positions=positions, seed=seed, **settings
    )


def recorded_step(trace: Trace, step: int) -> Segment:
    """One step of a trace, with the States before and after it."""
    if not 0 <= step < trace.steps:
        raise UsageError(f"step {step}: the trace has steps 0 to {trace.steps - 1}")
    segment = next(iter(trace.segments(step, step + 1)))
    if len(segment.records) != 1:
        raise UsageError("the trace does not keep every State", hint="forge traces with --checkpoint-every 1")
    return segment


def steps_with(trace: Trace, rows: Sequence[int]) -> list[int]:
    """The steps whose batches have any of the rows."""
    wanted = set(rows)
    return [frame.record.step for frame in trace.frames() if any(wanted & set(m) for m in frame.record.rows)]


def write_forged(trace: Trace, folder: Path, forgeries: Sequence[Forgery]) -> None:
    """A copy of the trace that claims the forged batches, with every digest fitting."""
    by_step = {forgery.step: forgery.batch for forgery in forgeries}

    def edit(record: StepRecord) -> StepRecord:
        batch = by_step.get(record.step)
        if batch is None:
            return record
        carried = {str(k): base64.b64encode(row).decode() for k, row in sorted(batch.carried.items())}
        return record.model_copy(update={"rows": [list(micro) for micro in batch.rows], "carried": carried})

    rewrite(trace, folder, edit)

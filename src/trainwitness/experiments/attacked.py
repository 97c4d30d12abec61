"""Training to a stage and attacking the next step; shared by the experiments about forging."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from trainwitness.core.forgery import Forgery
from trainwitness.core.numerics import Numerics
from trainwitness.core.seeds import derive
from trainwitness.forging.forge import attack
from trainwitness.forging.problem import Problem, make_problem
from trainwitness.tasks.task import Task
from trainwitness.training.stepper import Stepper


def at_stages(task: Task, numerics: Numerics, stages: Sequence[int]) -> Iterator[tuple[int, Stepper]]:
    """One training run, stopped at each stage."""
    run, at = Stepper(task, numerics), 0
    for stage in stages:
        while at < stage:
            run.run(task.schedule.batch(at))
            at += 1
        yield stage, run


SECONDS = 10.0
"""Time for one attack."""


def problem_at(
    run: Stepper, step: int, count: int, *, pool_size: int, seed: int, seconds: float = SECONDS
) -> Problem:
    """Forging `count` examples of a batch from where the run is; the run goes on undisturbed."""
    state, task = run.state(), run.task
    batch = task.schedule.batch(step)
    adversary = Stepper(task, run.numerics)
    after = adversary(state, batch)
    first = derive(seed, "position") % (batch.size - count + 1)
    return make_problem(
        adversary, state, after, batch, positions=range(first, first + count), pool_size=pool_size, seed=seed,
        seconds=seconds,
    )  # fmt: skip


def best(problem: Problem, attacks: Sequence[str], **settings: dict[str, Any]) -> Forgery:
    """The forgery with the smallest error among those that a verifier would not refuse."""
    found = [attack(problem, name, **settings.get(name, {})) for name in attacks]
    return min((f for f in found if not f.problems), key=lambda f: f.error, default=found[0])

"""The forging game (paper 000, Algorithm 1)."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from trainwitness.core.forgery import Forgery
from trainwitness.core.numerics import Numerics
from trainwitness.core.rates import exact_interval
from trainwitness.core.seeds import derive
from trainwitness.core.verdict import Threshold
from trainwitness.forging.forge import attack
from trainwitness.forging.problem import make_problem
from trainwitness.tasks.task import Task
from trainwitness.training.stepper import Stepper


@dataclass(frozen=True)
class Game:
    """What came of some rounds: wins, why the others were rejected, and every forgery's error."""

    attack: str
    rounds: int
    wins: int
    rejected: dict[str, int]
    """Reasons: `same batch`, `outside the domain`, `error`."""
    threshold: float
    errors: list[float] = field(repr=False)
    steps: list[int] = field(repr=False)
    seconds: float = 0.0

    @property
    def interval(self) -> tuple[float, float]:
        """The exact 95% interval of the probability of winning."""
        return exact_interval(self.wins, self.rounds)


def play(
    task: Task,
    name: str,
    *,
    threshold: Threshold,
    rounds: int = 10,
    steps: int = 100,
    fraction: float = 1.0,
    numerics: Numerics | None = None,
    pool_size: int = 2000,
    seconds: float = 60.0,
    seed: int = 0,
    settings: Mapping[str, Any] | None = None,
    on_round: Callable[[Forgery], None] | None = None,
) -> Game:
    """The verifier trains for `steps` and draws one per round; the adversary replaces a `fraction` of its batch."""
    started = time.perf_counter()
    drawn = sorted(derive(seed, "round", k) % steps for k in range(rounds))
    verifier, adversary = Stepper(task, numerics), Stepper(task, numerics)
    reasons: Counter[str] = Counter()
    wins, errors, at = 0, [], 0
    for number, step in enumerate(drawn):
        while at < step:
            verifier.run(task.schedule.batch(at))
            at += 1
        batch = task.schedule.batch(step)
        state = verifier.state()
        after = adversary(state, batch)
        count = max(1, round(fraction * batch.size))
        problem = make_problem(
            adversary, state, after, batch, positions=range(count), pool_size=pool_size, seconds=seconds,
            seed=derive(seed, "adversary", number),
        )  # fmt: skip
        forgery = attack(problem, name, **(settings or {}))
        if not forgery.problems:
            forgery = replace(forgery, error=replace(problem, stepper=verifier).error(forgery.batch))
            verifier.load(state)
        errors.append(forgery.error)
        reason = reject_reason(forgery, threshold.value)
        wins += reason is None
        reasons.update([reason] if reason else [])
        if on_round:
            on_round(forgery)
    return Game(name, rounds, wins, dict(reasons), threshold.value, errors, drawn, time.perf_counter() - started)


def reject_reason(forgery: Forgery, threshold: float) -> str | None:
    """Why the verifier rejects (Algorithm 1, steps 4 and 6); None if the adversary wins."""
    if any("same batch" in problem for problem in forgery.problems):
        return "same batch"
    if forgery.problems:
        return "outside the domain"
    return "error" if forgery.error > threshold else None

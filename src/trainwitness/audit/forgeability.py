"""forgeability: what other batch could hide behind a user's own step: real numbers, valid ones, the same bits.

Three questions are kept apart, and each has one of three answers: shown (here is the batch), not found with this
effort, or excluded by an argument. Nothing is ever called unforgeable.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import numpy as np

from trainwitness.audit.freedom import Freedom, freedom
from trainwitness.core.errors import UsageError
from trainwitness.core.forgery import Forgery
from trainwitness.core.verdict import Threshold
from trainwitness.forging.forge import attack
from trainwitness.forging.problem import Problem
from trainwitness.tasks.domain import Array
from trainwitness.verification.noise import NOT_HARDWARE
from trainwitness.verification.step_noise import step_noise

Standing = Literal["shown", "not found", "excluded"]
Question = Literal["real numbers", "valid within tolerance", "bit for bit"]
ATTACKS = ("null-space", "relabel", "lattice", "swap-search")


@dataclass(frozen=True)
class Answer:
    """One question's answer and what it rests on."""

    question: Question
    standing: Standing
    why: str


@dataclass(frozen=True)
class Tried:
    """One attack: its forgery, or why it does not apply."""

    attack: str
    forgery: Forgery | None
    why_not: str = ""


@dataclass(frozen=True)
class Forgeability:
    """The audit of one step."""

    step: int
    freedom: Freedom
    noise: dict[str, float]
    tolerance: float
    origin: str
    """Where the tolerance comes from."""
    tried: list[Tried]
    answers: list[Answer]
    advice: list[str]
    best: Forgery | None
    """The valid forgery with the smallest error."""
    examples: list[tuple[int, Array, Array]] = field(repr=False)
    """(position, original, forged) inputs of the best valid forgery."""

    @property
    def shown(self) -> bool:
        """Whether a valid batch within the tolerance was found."""
        return any(a.standing == "shown" for a in self.answers if a.question != "real numbers")

    def to_json(self) -> dict[str, Any]:
        """Plain data; images as hexadecimal bytes."""
        return {
            "step": self.step, "freedom": asdict(self.freedom) | {"null_space": self.freedom.null_space,
            "fibre": self.freedom.fibre}, "noise": self.noise, "tolerance": self.tolerance, "origin": self.origin,
            "tried": [_tried_json(one) for one in self.tried],
            "answers": [asdict(answer) for answer in self.answers], "advice": self.advice,
            "examples": [
                {"position": k, "shape": list(a.shape), "dtype": a.dtype.name}
                | {"original": a.tobytes().hex(), "forged": b.tobytes().hex()}
                for k, a, b in self.examples[:4]
            ],
        }  # fmt: skip


def forgeability(
    problem: Problem,
    *,
    threshold: Threshold | None = None,
    attacks: Sequence[str] = ATTACKS,
    settings: Mapping[str, Mapping[str, Any]] | None = None,
    on_attack: Callable[[str], None] | None = None,
) -> Forgeability:
    """Attacks the problem's step and answers the three questions; `settings` are for single attacks, by name."""
    task, batch = problem.stepper.task, problem.batch
    noise = step_noise(task, problem.stepper.numerics, problem.before, problem.after, batch)
    benign = max((value for source, value in noise.items() if source not in NOT_HARDWARE), default=0.0)
    tolerance = benign if threshold is None else threshold.value
    origin = "the largest honest error of this step here" if threshold is None else threshold.origin
    free = freedom(problem)
    tried = []
    for name in attacks:
        if on_attack:
            on_attack(name)
        tried.append(_try(problem, name, (settings or {}).get(name, {})))
    valid = [one.forgery for one in tried if one.forgery is not None and not one.forgery.problems]
    best = min(valid, key=lambda forgery: forgery.error, default=None)
    answers = [
        _real(free, tried, tolerance),
        _within(free, best, tolerance, origin),
        _bits(free, best),
    ]
    examples = [] if best is None else _examples(problem, best)
    return Forgeability(
        batch.step, free, noise, tolerance, origin, tried, answers, _advice(free, answers), best, examples
    )


def _try(problem: Problem, name: str, settings: Mapping[str, Any]) -> Tried:
    try:
        return Tried(name, attack(problem, name, **settings))
    except UsageError as error:
        return Tried(name, None, error.message)


def _alone(free: Freedom) -> str | None:
    """Proposition 1, where it holds."""
    if free.batch == 1 and free.biased and free.live and free.rank_errors is not None:
        return (
            "Proposition 1: the batch has one example, and the gradients of a fully connected first layer with a "
            "bias determine its input; up to the rounding of the stored States"
        )
    return None


def _real(free: Freedom, tried: Sequence[Tried], tolerance: float) -> Answer:
    argument = _alone(free)
    if argument:
        return Answer("real numbers", "excluded", argument)
    forgeries = [one.forgery for one in tried if one.forgery is not None and one.forgery.residual is not None]
    forgeries = [forgery for forgery in forgeries if "the same batch" not in forgery.problems]
    best = min(forgeries, key=lambda forgery: forgery.residual or 0.0, default=None)
    if best is not None and best.residual is not None and best.residual <= max(1e-12, 1e-3 * tolerance):
        why = f"{best.attack}: {best.residual:.1e} in float64, {best.error:.1e} in the step's own arithmetic"
        return Answer("real numbers", "shown", why)
    if free.fibre:
        why = (
            f"by counting, batches with this gradient form {free.fibre:,} dimensions around this one; none was built"
        )
    else:
        why = "no null space and no dimension left by counting; a far-away batch is not excluded"
    return Answer("real numbers", "not found", why)


def _within(free: Freedom, best: Forgery | None, tolerance: float, origin: str) -> Answer:
    argument = _alone(free)
    if best is None:
        return Answer("valid within tolerance", "not found", "no attack applies here")
    found = (
        f"best valid batch: {best.attack}, error {best.error:.1e} against {tolerance:.1e} ({origin}), "
        f"{best.cost.seconds:.0f} s"
    )
    if best.residual is not None:
        found += f"; in float64 the steps differ by {best.residual:.1e}"
    if best.error <= tolerance:
        return Answer("valid within tolerance", "shown", found)
    if argument:
        return Answer("valid within tolerance", "excluded", argument)
    return Answer("valid within tolerance", "not found", found)


def _bits(free: Freedom, best: Forgery | None) -> Answer:
    argument = _alone(free)
    if best is not None and best.error == 0:
        return Answer("bit for bit", "shown", f"{best.attack}: the same parameters, bit for bit, on this machine")
    if argument:
        return Answer("bit for bit", "excluded", argument)
    nearest = "no attack applies here" if best is None else f"the best valid batch has an error of {best.error:.1e}"
    return Answer("bit for bit", "not found", nearest)


def _advice(free: Freedom, answers: Sequence[Answer]) -> list[str]:
    """What would make forging harder, in the order of what it is worth."""
    advice = []
    if any(answer.standing != "excluded" for answer in answers):
        advice.append("commit to the data before training: a commitment refutes every row that is not in it")
    if answers[1].standing == "shown":
        advice.append("do not take an ACCEPT at this tolerance as proof of the data")
        advice.append("finer or exact arithmetic lowers the tolerance; forging then needs more luck, not other ideas")
    if free.null_space and free.rank_weights is not None:
        advice.append(
            f"a first layer of at least {free.inputs} units, or batches of at most {free.rank_errors} examples, "
            "has no null space of this kind"
        )
    return advice


def _examples(problem: Problem, best: Forgery) -> list[tuple[int, Array, Array]]:
    dataset = problem.stepper.task.dataset
    original, _ = dataset.fetch(problem.rows)
    rows = [row for micro in best.batch.rows for row in micro]
    forged, _ = dataset.fetch(rows, best.batch.carried)
    changed = [k for k in best.replaced if not np.array_equal(original[k], forged[k])]
    return [(k, original[k].numpy(), forged[k].numpy()) for k in changed[:16]]


def _tried_json(one: Tried) -> dict[str, Any]:
    found = one.forgery
    if found is None:
        return {"attack": one.attack, "why_not": one.why_not}
    return {
        "attack": one.attack, "error": found.error, "residual": found.residual, "seconds": found.cost.seconds,
        "replaced": len(found.replaced), "problems": list(found.problems), "update": found.update,
    }  # fmt: skip

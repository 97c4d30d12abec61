"""forgery_margin: how much larger the best forgery's error is than what the verifier allows."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from trainwitness.audit.freedom import freedom
from trainwitness.core.errors import UsageError
from trainwitness.core.forgery import Forgery
from trainwitness.core.seeds import derive
from trainwitness.core.verdict import Property
from trainwitness.forging.forge import attack, step_problem
from trainwitness.forging.forger import EXACT, FORGERS
from trainwitness.trace.reader import Trace
from trainwitness.training.stepper import Stepper

STATED_MARGIN = 1.0
"""Orders of magnitude below which the property is refuted."""
ATTACKS = tuple(name for name in FORGERS if name != "greedy" and name not in EXACT)
"""The registered approximate attacks; `efficient-greedy` looks at the candidates of `greedy`, and at far more. What
the exact ones could do hangs on the first layer's null space, which the margin states; `forgeability` tries them."""
SECONDS = 5.0
"""Time for each attack on each step."""


@dataclass(frozen=True)
class StepMargin:
    """One attacked step: log10 of the smallest error any attack reached over the threshold, at fraction 1 and 1/b."""

    step: int
    whole: float
    single: float
    best_whole: Forgery
    best_single: Forgery


@dataclass(frozen=True)
class ForgeryMargin:
    """The smallest margins over the attacked steps."""

    threshold: float
    steps: list[StepMargin]
    why_not: str = ""
    """Why steps could not be attacked, if any."""
    null_space: int = 0
    """Dimensions in which data can change without the first attacked step noticing (see `forgeability`)."""

    @property
    def whole(self) -> float:
        return min((step.whole for step in self.steps), default=math.inf)

    @property
    def single(self) -> float:
        return min((step.single for step in self.steps), default=math.inf)

    def as_property(self) -> Property:
        """Established above the stated margin; below it an ACCEPT does not establish the data."""
        if not self.steps:
            return Property(standing="unknown", why=f"no step could be attacked: {self.why_not}")
        least = min(self.whole, self.single)
        found = (
            f"attacks on {len(self.steps)} steps came within 10^{self.whole:.1f} (whole batch) and "
            f"10^{self.single:.1f} (one example) of the threshold {self.threshold:.1e}"
        )
        free = sum(step.best_whole.twins for step in self.steps)
        if free:
            found += f"; {free} rows with the content of attacked examples would make an honest swap free"
        if self.null_space:
            found += (
                f"; the first layer leaves {self.null_space:,} dimensions in which data can change unseen: ask "
                "trainwitness forgeability"
            )
        if least < STATED_MARGIN:
            return Property(standing="refuted", why=f"{found}: an ACCEPT does not establish which data was used")
        return Property(standing="established", why=f"{found}; stronger attacks may exist")

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "threshold": self.threshold,
            "whole": self.whole,
            "single": self.single,
            "null_space": self.null_space,
            "steps": [
                {"step": s.step, "whole": s.whole, "single": s.single}
                | {"error_whole": s.best_whole.error, "attack_whole": s.best_whole.attack}
                | {"error_single": s.best_single.error, "attack_single": s.best_single.attack}
                | {"twins": s.best_whole.twins, "update": s.best_whole.update}
                for s in self.steps
            ],
        }


def forgery_margin(
    trace: Trace,
    stepper: Stepper,
    threshold: float,
    *,
    steps: Sequence[int] | None = None,
    attacks: Sequence[str] = ATTACKS,
    pool_size: int | None = None,
    seconds: float = SECONDS,
    on_step: Callable[[StepMargin], None] | None = None,
) -> ForgeryMargin:
    """Attacks some steps (default: first, middle, last), with all examples and with one example replaced."""
    chosen = sorted({0, trace.steps // 2, trace.steps - 1}) if steps is None else list(steps)
    size = next(trace.frames()).record.rows
    pool_size = max(1000, 4 * sum(map(len, size))) if pool_size is None else pool_size
    found, why_not = [], ""
    for step in chosen:
        try:
            whole, single = (
                _best(trace, stepper, step, attacks, fraction=fraction, pool_size=pool_size, seconds=seconds)
                for fraction in (1.0, 1e-9)
            )
        except UsageError as error:  # batch norm, a pool that is too small, rows that do not exist, ...
            why_not = str(error)
            continue
        margin = StepMargin(step, _orders(whole.error, threshold), _orders(single.error, threshold), whole, single)
        found.append(margin)
        if on_step:
            on_step(margin)
    return ForgeryMargin(threshold, found, why_not, _null_space(trace, stepper, found, pool_size))


def _null_space(trace: Trace, stepper: Stepper, found: Sequence[StepMargin], pool_size: int) -> int:
    if not found:
        return 0
    return freedom(step_problem(trace, stepper, found[0].step, fraction=1.0, pool_size=pool_size)).null_space


def _best(trace: Trace, stepper: Stepper, step: int, attacks: Sequence[str], **settings: Any) -> Forgery:
    """The smallest error any of the attacks reaches; one that cannot be run here is left out."""
    forgeries, failed = [], UsageError(f"step {step}: every forgery would be refused")
    for name in attacks:
        try:
            forgery = attack(step_problem(trace, stepper, step, seed=derive(0, "margin", name), **settings), name)
        except UsageError as error:
            failed = error
            continue
        if not forgery.problems:
            forgeries.append(forgery)
    if not forgeries:
        raise failed
    return min(forgeries, key=lambda forgery: forgery.error)


def _orders(error: float, threshold: float) -> float:
    return math.log10(max(error, 1e-300) / max(threshold, 1e-300))

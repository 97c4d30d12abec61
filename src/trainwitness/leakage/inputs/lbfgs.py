"""L-BFGS on many problems at once: each line of the unknowns has its own history, step and line search."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch

from trainwitness.leakage.inputs.pairs import Pairs

Objective = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
"""(unknowns [r, n] that want gradients, which problems they are [r]) -> values [r]."""

ARMIJO, SHRINK, TRIES = 1e-4, 0.5, 12


@dataclass(frozen=True, eq=False)
class Minimum:
    """The least value of every problem, where it was found, and after how many iterations."""

    unknowns: torch.Tensor
    values: torch.Tensor
    iterations: torch.Tensor


def minimise(
    objective: Objective,
    start: torch.Tensor,
    *,
    steps: int,
    history: int = 100,
    tolerance: float = 0.0,
    enough: int | None = None,
    watch: Callable[[torch.Tensor], None] | None = None,
) -> Minimum:
    """Minimises each problem until `tolerance`, or until no step goes down; ends when `enough` are there.

    `watch` sees the unknowns after every iteration.
    """
    run = _Run(objective, start.detach().clone(), max(1, min(history, steps)))
    for _ in range(steps):
        run.active &= run.values > tolerance
        if not run.active.any() or (enough is not None and int((run.values <= tolerance).sum()) >= enough):
            break
        run.advance()
        if watch is not None:
            watch(run.unknowns)
    return Minimum(run.unknowns, run.values, run.iterations)


@dataclass(eq=False)
class _Run:
    objective: Objective
    unknowns: torch.Tensor
    history: int
    pairs: Pairs = field(init=False)

    def __post_init__(self) -> None:
        count = len(self.unknowns)
        self.pairs = Pairs(self.unknowns, self.history)
        self.active = torch.ones(count, dtype=torch.bool, device=self.unknowns.device)
        self.iterations = torch.zeros(count, dtype=torch.long, device=self.unknowns.device)
        self.values, self.slopes = self._evaluate(self.unknowns, torch.arange(count, device=self.unknowns.device))

    def _evaluate(self, unknowns: torch.Tensor, which: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        moving = unknowns.detach().requires_grad_()
        values = self.objective(moving, which)
        (slopes,) = torch.autograd.grad(values.sum(), moving)
        bad = ~torch.isfinite(values.detach())
        return values.detach().masked_fill(bad, float("inf")), slopes.masked_fill(bad[:, None], 0.0)

    def advance(self) -> None:
        """One iteration of every active problem."""
        direction = self.pairs.direction(self.slopes)
        descent = (direction * self.slopes).sum(1)
        uphill = descent >= 0
        direction = torch.where(uphill[:, None], -self.slopes, direction)
        descent = torch.where(uphill, -self.slopes.square().sum(1), descent)
        first = 1 / self.slopes.abs().sum(1).clamp(min=1e-30)
        sizes = torch.where(uphill | (self.iterations == 0), first.clamp(max=1.0), torch.ones_like(first))
        before, before_slopes = self.unknowns.clone(), self.slopes.clone()
        left = self.active.nonzero()[:, 0]
        for _ in range(TRIES):
            trial = before[left] + sizes[left, None] * direction[left]
            values, slopes = self._evaluate(trial, left)
            good = values <= self.values[left] + ARMIJO * sizes[left] * descent[left]
            taken = left[good]
            self.unknowns[taken], self.values[taken], self.slopes[taken] = trial[good], values[good], slopes[good]
            left = left[~good]
            if not len(left):
                break
            sizes[left] *= SHRINK
        stuck = torch.zeros_like(self.active)
        stuck[left] = True
        self.iterations[self.active & ~stuck] += 1
        self._stuck(stuck & self.active)
        self.pairs.add(self.unknowns - before, self.slopes - before_slopes)

    def _stuck(self, stuck: torch.Tensor) -> None:
        """A problem that cannot go down forgets its history once, and is done the second time."""
        if stuck.any():
            self.active &= ~(stuck & self.pairs.empty)
            self.pairs.forget(stuck)

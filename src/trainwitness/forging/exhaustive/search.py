"""The two questions: has this batch a double, and are there any two batches at all with the same gradient?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from math import comb

import numpy as np
import torch
from torch import nn

from trainwitness.core.seeds import derive, permutation
from trainwitness.forging.exhaustive.decide import Answer, decide
from trainwitness.forging.exhaustive.explain import Core, core, explain
from trainwitness.forging.exhaustive.join import Join, collisions
from trainwitness.forging.exhaustive.keys import make_keys
from trainwitness.training.rational import all_inputs, rational_gradients


@dataclass
class Found:
    """What a search came to: decided candidates, reasons, and an example of each reason."""

    answers: Counter[Answer] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    examples: dict[str, tuple[list[int], list[int]]] = field(default_factory=dict)
    nearest: float | None = None
    """The smallest gradient difference among candidates that were proved different."""

    @property
    def equal(self) -> int:
        return self.answers["equal"]


class Search:
    """All batches of distinct examples of a small domain, at one model's weights."""

    def __init__(self, model: nn.Module, values: list[int], pixels: int, *, device: str = "cpu") -> None:
        self.inputs = all_inputs(values, pixels)
        self.gradients = rational_gradients(model, self.inputs)
        self._join = Join(make_keys(self.gradients, device=device))
        self._cores: dict[int, Found] = {}
        self._known: set[Core] = set()

    @property
    def examples(self) -> int:
        return len(self.inputs) * self.gradients.classes

    def target(self, size: int, number: int) -> list[int]:
        """A batch drawn at random."""
        return sorted(permutation(derive(number, "target", size), self.examples)[:size].tolist())

    def doubles(self, batch: list[int]) -> Found:
        """Every other batch with the gradient of this one."""
        found = Found()
        like = self._join.like(torch.tensor(batch, device=self._join.keys.values.device))
        for other in like.tolist():
            if other != batch:
                mine, its = sorted(set(batch) - set(other)), sorted(set(other) - set(batch))
                self._judge(found, mine, its)
        return found

    def cores(self, size: int, advance: Callable[[int], None] = lambda _: None) -> Found:
        """Every pair of disjoint batches of `size` with the same gradient. Smaller sizes come first."""
        if size not in self._cores:
            for smaller in range(1, size):
                self.cores(smaller, advance)
            found = Found()
            for ones, others in collisions(self._join, size):
                for one, other in zip(ones.tolist(), others.tolist(), strict=True):
                    if self._judge(found, one, other):
                        self._known.add(core(one, other))
                advance(found.equal)
            self._cores[size] = found
        return self._cores[size]

    def pairs(self, size: int) -> int:
        """Pairs of batches of `size` with the same gradient: cores, completed by examples that both have."""
        return sum(self.cores(k).equal * comb(self.examples - 2 * k, size - k) for k in range(1, size + 1))

    def _judge(self, found: Found, one: list[int], other: list[int]) -> bool:
        decision = decide(self.gradients, one, other)
        found.answers[decision.answer] += 1
        if decision.answer == "different":
            found.nearest = min(decision.gap, found.nearest or np.inf)
        if decision.answer != "equal":
            return False
        reason = explain(self.gradients, self.inputs, one, other, self._known)
        found.reasons[reason] += 1
        found.examples.setdefault(reason, (one, other))
        return True

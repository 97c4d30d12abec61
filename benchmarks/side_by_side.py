"""Comparing two ways of doing the same work on a noisy machine: alternate them, take medians, print ratios."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Comparison:
    """Seconds of each round of A and B, taken alternately."""

    a: list[float]
    b: list[float]

    @property
    def ratio(self) -> float:
        """Median of B / A, round by round."""
        return statistics.median(b / a for a, b in zip(self.a, self.b, strict=True))


def alternate(a: Callable[[], object], b: Callable[[], object], *, rounds: int) -> Comparison:
    """Runs A and B `rounds` times each, in turn, after one warm-up of both; who goes first alternates too."""
    a(), b()
    seconds: dict[str, list[float]] = {"a": [], "b": []}
    for number in range(rounds):
        pair = [("a", a), ("b", b)]
        for name, function in pair if number % 2 == 0 else reversed(pair):
            gc.collect()
            started = time.perf_counter()
            function()
            seconds[name].append(time.perf_counter() - started)
    return Comparison(seconds["a"], seconds["b"])


def table(header: list[str], rows: list[list[str]]) -> str:
    """A Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)

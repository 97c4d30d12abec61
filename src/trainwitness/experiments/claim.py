"""A claim of a paper, and what our measurements say about it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from trainwitness.experiments.experiment import Row, cell
from trainwitness.experiments.kept import Kept

Rule = Literal["about", "at most", "at least", "exactly", "none"]


@dataclass(frozen=True)
class Claim:
    """One published figure, the rows that measure the same thing, and how the two are compared.

    `rule`: ours is *about* the paper's if within a factor `within`; `none` is for what no paper published.
    `figures` makes ours from all rows of a run at once (a ratio of two of them, say) instead of taking `column` from
    each. `why` explains a difference where we know it; `suspect` says, from the rows, why the published figure cannot
    be right or does not mean what it seems to.
    """

    source: str
    says: str
    experiment: str
    paper: float | None = None
    where: Mapping[str, Any] = field(default_factory=dict)
    column: str = "ours"
    rule: Rule = "about"
    within: float = 10.0
    why: str = ""
    suspect: Callable[[Sequence[Row]], str] | None = None
    figures: Callable[[Sequence[Row]], Sequence[float]] | None = None

    def rows(self, kept: Sequence[Kept]) -> list[list[Row]]:
        """For each full run (quick ones are too small to judge by), the rows that the claim is about."""
        runs = [one.rows for one in kept if one.name == self.experiment and not one.quick]
        return [[row for row in rows if self._fits(row) and self._has_figure(row)] for rows in runs]

    def ours(self, runs: Sequence[Sequence[Row]]) -> list[float]:
        """Our figures, from rows of one run at a time."""
        if self.figures is not None:
            return [value for rows in runs for value in self.figures(rows)]
        return [float(row[self.column]) for rows in runs for row in rows]

    def _has_figure(self, row: Row) -> bool:
        return self.figures is not None or isinstance(row.get(self.column), (int, float))

    def _fits(self, row: Row) -> bool:
        return all(
            wanted(row.get(k)) if callable(wanted) else row.get(k) == wanted for k, wanted in self.where.items()
        )


@dataclass(frozen=True)
class Judged:
    """A claim with our figures and the verdict."""

    claim: Claim
    ours: Sequence[float]
    verdict: str

    @property
    def cells(self) -> list[str]:
        """As a row of the page: claim, paper, ours, ratio, verdict."""
        paper, low, high = self.claim.paper, min(self.ours, default=None), max(self.ours, default=None)
        ratios = (low / paper, high / paper) if paper and low is not None and high is not None else (None, None)
        signs = {"at most": "<= ", "at least": ">= ", "about": "about ", "exactly": "", "none": ""}
        shown = "-" if paper is None else signs[self.claim.rule] + cell(paper)
        return [f"{self.claim.says} ({self.claim.source})", shown, _span(low, high), _span(*ratios), self.verdict]


def judge(claim: Claim, kept: Sequence[Kept]) -> Judged:
    """What our measurements say: confirmed, differs, suspect in the paper, beyond the paper, or not measured yet."""
    runs = claim.rows(kept)
    ours = claim.ours(runs)
    if not ours:
        return Judged(claim, ours, f"not measured yet: `trainwitness reproduce {claim.experiment}`")
    if claim.suspect is not None:
        return Judged(claim, ours, f"*suspect in the paper*: {claim.suspect([row for rows in runs for row in rows])}")
    if claim.rule == "none" or claim.paper is None:
        return Judged(claim, ours, "*beyond the paper*" + (f": {claim.why}" if claim.why else ""))
    holds = all(_holds(claim, claim.paper, value) for value in ours)
    return Judged(claim, ours, "*confirmed*" if holds else f"*differs*: {claim.why or 'unexplained'}")


def _holds(claim: Claim, paper: float, ours: float) -> bool:
    if claim.rule == "at most":
        return ours <= paper
    if claim.rule == "at least":
        return ours >= paper
    if claim.rule == "exactly":
        return ours == paper
    return 1 / claim.within <= ours / paper <= claim.within


def _span(low: float | None, high: float | None) -> str:
    return cell(low) if cell(low) == cell(high) else f"{cell(low)} to {cell(high)}"

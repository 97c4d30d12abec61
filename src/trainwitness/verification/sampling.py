"""Sampling: how many steps, drawn after the trace is fixed, show with what confidence that few are false.

Of T steps let B be false. Drawing n of them without replacement misses all false ones with the hypergeometric
probability C(T - B, n) / C(T, n). `plan` finds the smallest n for which that is at most 1 - confidence, in exact
arithmetic, with B the least whole number of steps that makes up the fraction.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from trainwitness.core.errors import TraceMismatch, UsageError
from trainwitness.core.seeds import derive, permutation
from trainwitness.core.state import State
from trainwitness.core.verdict import Property, StepError
from trainwitness.trace.reader import Trace
from trainwitness.trace.segments import Segment
from trainwitness.verification.distance import update_size
from trainwitness.verification.recompute import Check, Recomputer, failed

LARGEST = 5
"""Steps with the largest updates that are recomputed besides: a splice shows there, however rare."""


@dataclass(frozen=True)
class Sampling:
    """What the verifier wants: to see, with `confidence`, whether `fraction` of the steps or more are false."""

    fraction: float
    confidence: float
    nonce: str | None = None
    """Unknown to the owner until the trace was handed over; None draws one."""


@dataclass(frozen=True)
class Sample:
    """Which spans (steps, or runs of steps between two stored States) are recomputed, and what that shows."""

    drawn: frozenset[int]
    largest: frozenset[int]
    spans: int
    false: int
    missed: Fraction
    nonce: str
    every: int = 1
    """Steps in a span."""

    @property
    def chosen(self) -> frozenset[int]:
        """All spans to recompute."""
        return self.drawn | self.largest

    def facts(self) -> dict[str, Any]:
        """For the Verdict."""
        return {
            "spans": self.spans, "drawn": sorted(self.drawn), "largest_updates": sorted(self.largest),
            "false_spans": self.false, "missed_probability": float(self.missed), "nonce": self.nonce,
        }  # fmt: skip

    def recomputed(
        self, segments: Iterable[Segment], recompute: Recomputer, check: Check
    ) -> Iterator[tuple[Segment, StepError | None]]:
        """Every segment, checked; with its error if it is of the sample, or if it cannot be computed at all."""
        for number, segment in enumerate(segments):
            problems = check(segment)
            if problems or number in self.chosen:
                yield from _alone(segment, recompute, problems)
            else:
                yield segment, None

    def reproduced(self, errors: Sequence[StepError], state: State) -> Property:
        """What recomputing the sample shows, where no error among them is above the threshold.

        `state` is one of the verifier's own: if it has momentum, moments or buffers, the drawn steps started from the
        trace's, which may hide a push (decision 0009).
        """
        more = sorted(n for n in state.tensors if n.startswith(("optim/", "buffer/")) and not state.is_counter(n))
        if more and not all(error.exact for error in errors):
            why = f"the drawn steps start from the trace's own {more[0]}: only errors of 0 show anything then"
            return Property(standing="unknown", why=why)
        return Property(standing="established", why=self.words())

    def words(self) -> str:
        """The guarantee."""
        unit = "steps" if self.every == 1 else f"spans of {self.every} steps"
        return (
            f"{len(self.drawn)} of {self.spans} {unit} were drawn by the trace's root and nonce {self.nonce}, none "
            f"is false; had {self.false} or more of them been, this draw would have shown one with probability "
            f"{1 - float(self.missed):.6f}; the {len(self.largest)} largest updates were recomputed too"
        )


def _alone(segment: Segment, recompute: Recomputer, problems: list[str]) -> Iterator[tuple[Segment, StepError]]:
    """A segment by itself; a State before it that is none of this task's is the trace's fault."""
    try:
        yield from recompute([segment], lambda _: problems)
    except TraceMismatch as mismatch:
        yield segment, failed(segment, [str(mismatch)])


def miss_probability(spans: int, false: int, drawn: int) -> Fraction:
    """C(T - B, n) / C(T, n): the chance that n draws without replacement hold none of B false spans."""
    return Fraction(math.comb(spans - false, drawn), math.comb(spans, drawn))


def least_draws(spans: int, false: int, confidence: Fraction) -> int:
    """The smallest n that misses with probability at most 1 - confidence.

    >>> least_draws(100, 10, Fraction(95, 100))
    25
    """
    low, high = 1, spans - false + 1  # the miss probability falls in n, and is 0 at `high`
    while low < high:
        middle = (low + high) // 2
        if miss_probability(spans, false, middle) <= 1 - confidence:
            high = middle
        else:
            low = middle + 1
    return low


def plan(trace: Trace, wanted: Sampling) -> Sample:
    """Draws the spans of a sealed trace by its root, which verification compares with what it reads afterwards."""
    if not 0 < wanted.fraction <= 1 or not 0 < wanted.confidence < 1:
        raise UsageError(
            f"a fraction of {wanted.fraction} with confidence {wanted.confidence}",
            hint="the fraction is above 0 and at most 1, the confidence strictly between 0 and 1",
        )
    if trace.seal is None:
        raise UsageError("the trace is unsealed: its root is not fixed", hint="recompute every step instead")
    updates = [update_size(segment.before, segment.after) for segment in trace.segments()]
    nonce = wanted.nonce or secrets.token_hex(16)
    spans = len(updates)
    false = max(1, math.ceil(Fraction(str(wanted.fraction)) * spans))
    count = least_draws(spans, false, Fraction(str(wanted.confidence)))
    order = permutation(derive(0, "sample", trace.seal.step_root, nonce), spans)
    by_size = sorted(range(spans), key=lambda span: -updates[span] if math.isfinite(updates[span]) else -math.inf)
    return Sample(
        drawn=frozenset(order[:count].tolist()),
        largest=frozenset(by_size[:LARGEST]),
        spans=spans,
        false=false,
        missed=miss_probability(spans, false, count),
        nonce=nonce,
        every=trace.manifest.checkpoint_every,
    )

"""What a section of the page is made of: plain data, drawn by the template."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from trainwitness.report.picture import Pixels

Tone = Literal["good", "bad", "open", "plain"]
"""How a headline is coloured: holds, does not hold, not decided, no judgement."""


@dataclass(frozen=True)
class Words:
    """Paragraphs."""

    paragraphs: Sequence[str]


@dataclass(frozen=True)
class Facts:
    """Names and values."""

    title: str
    facts: Mapping[str, Any]


@dataclass(frozen=True)
class Table:
    """Rows of cells; a row is at least as long as the header."""

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[Any]]
    folded: bool = False


@dataclass(frozen=True)
class Claim:
    """Something a verification says about itself: a property, where it stands, and why."""

    name: str
    meaning: str
    standing: str
    why: str
    word: str = ""
    """Shown in place of the standing."""

    @property
    def tone(self) -> Tone:
        tones: dict[str, Tone] = {"established": "good", "refuted": "bad"}
        return tones.get(self.standing, "open")


@dataclass(frozen=True)
class Claims:
    """All properties of a verdict."""

    claims: Sequence[Claim]
    title: str = "What is established"


@dataclass(frozen=True)
class Series:
    """One named line, cloud of points, set of bars or band (`low` to `y`) of a plot."""

    name: str
    x: Sequence[Any]
    y: Sequence[float | None]
    shape: Literal["line", "points", "bars", "hollow", "limit", "band"] = "line"
    low: Sequence[float] = ()
    notes: Sequence[str] = ()
    """Shown on hovering over each point."""


@dataclass(frozen=True)
class Plot:
    """Series over one pair of axes. `table` is what stands behind it for those who cannot or will not see it."""

    title: str
    x: str
    y: str
    series: Sequence[Series]
    table: Table
    log: bool = True
    about: str = ""


@dataclass(frozen=True)
class Pair:
    """What was in the batch, and what a forgery has in its place; None where the row is no picture."""

    caption: str
    original: Pixels | None
    forged: Pixels | None
    words: tuple[str, str] = ("", "")


@dataclass(frozen=True)
class Pairs:
    """Original against forged examples."""

    title: str
    pairs: Sequence[Pair]
    about: str = ""


Block = Words | Facts | Table | Claims | Plot | Pairs


@dataclass(frozen=True)
class Section:
    """One result: what came of it in a sentence, and then everything it rests on."""

    headline: str
    blocks: Sequence[Block]
    tone: Tone = "plain"
    answer: str = ""
    """One word before the headline: ACCEPT, REJECT, ..."""
    details: Sequence[Block] = field(default=())
    """Folded away at the end."""

"""Attacks on the evidence, each a test; the table of docs/threat-model.md is written from what the tests assert.

python -m tests.evidence.catalogue        # writes the table into docs/threat-model.md
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

DOCUMENT = Path(__file__).parents[2] / "docs" / "threat-model.md"
BEGIN, END = "<!-- attacks: begin -->", "<!-- attacks: end -->"
MODULES = ("test_traces", "test_spoofing", "test_claims")


class Outcome(NamedTuple):
    """What happened to an attack where the verifier asks for so much."""

    setting: str
    answer: str
    check: str


@dataclass(frozen=True)
class Attack:
    """One line of the catalogue."""

    name: str
    how: str
    cost: str
    outcomes: tuple[Outcome, ...]


CATALOGUE: list[Attack] = []


def attack(*, name: str, how: str, cost: str, outcomes: list[tuple[str, str, str]]) -> Callable[[Any], Any]:
    """Makes a test of a function that carries an attack out and returns what happened in each setting."""
    stated = Attack(name, how, cost, tuple(Outcome(*one) for one in outcomes))
    CATALOGUE.append(stated)

    def decorate(function: Callable[..., list[Outcome]]) -> Callable[..., None]:
        @functools.wraps(function)
        def test(*args: Any, **kwargs: Any) -> None:
            found = function(*args, **kwargs)
            assert found == list(stated.outcomes), f"{stated.name}: {found}"

        return test

    return decorate


def table() -> str:
    """The catalogue in Markdown, in the order of the modules if nobody imported one before."""
    for module in MODULES:
        importlib.import_module(f"tests.evidence.{module}")
    lines = ["| attack | asked for | answer | caught by | cost to the attacker |", "| --- | --- | --- | --- | --- |"]
    for one in CATALOGUE:
        for number, outcome in enumerate(one.outcomes):
            about, cost = (f"**{one.name}**: {one.how}", one.cost) if number == 0 else ("", "")
            lines.append(f"| {about} | {outcome.setting} | {outcome.answer} | {outcome.check} | {cost} |")
    return "\n".join(lines)


def with_table(document: str) -> str:
    """The document with the table as it should be."""
    head, _, rest = document.partition(BEGIN)
    _, _, tail = rest.partition(END)
    return f"{head}{BEGIN}\n\n{table()}\n\n{END}{tail}"


if __name__ == "__main__":
    DOCUMENT.write_text(importlib.import_module("tests.evidence.catalogue").with_table(DOCUMENT.read_text()))

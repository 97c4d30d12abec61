"""The kinds of results: name to the function that tells it. A new kind is one new file and one registration."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from trainwitness.report.blocks import Section
from trainwitness.report.read import Envelope

Teller = Callable[[Envelope, Sequence[Envelope]], Section]
"""Told are a result and all results of the page: a verdict is drawn with the noise that a calibration measured."""

_TELLERS: dict[str, Teller] = {}


def tells(*kinds: str) -> Callable[[Teller], Teller]:
    """Registers a function for kinds of results; `reproduce/*` is every experiment without one of its own."""

    def register(teller: Teller) -> Teller:
        for kind in kinds:
            assert kind not in _TELLERS, kind
            _TELLERS[kind] = teller
        return teller

    return register


def teller_of(kind: str) -> Teller | None:
    """The function for a kind, by its name or its family's; None for one that nobody has drawn yet."""
    return _TELLERS.get(kind) or _TELLERS.get(f"{kind.partition('/')[0]}/*")

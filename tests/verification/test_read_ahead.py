"""Reading ahead gives the same items, and errors, in either way."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from trainwitness.core.numerics import Numerics
from trainwitness.verification.read_ahead import read_ahead


def failing() -> Iterator[int]:
    yield from range(5)
    raise RuntimeError("the sixth cannot be read")


@pytest.fixture(params=["every core busy", "a core to spare"])
def numerics(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Numerics:
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    return Numerics(threads=2 if request.param == "every core busy" else 1)


def test_same_items(numerics: Numerics) -> None:
    assert list(read_ahead(range(11), numerics)) == list(range(11))
    assert list(read_ahead([], numerics)) == []


def test_an_error_of_the_source_reaches_the_reader(numerics: Numerics) -> None:
    with pytest.raises(RuntimeError, match="the sixth"):
        list(read_ahead(failing(), numerics))


def test_stops_early(numerics: Numerics) -> None:
    items = read_ahead(range(10**9), numerics)
    assert [next(items), next(items)] == [0, 1]
    items.close()  # type: ignore[attr-defined]

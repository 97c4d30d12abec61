"""The public interface changes only on purpose."""

from __future__ import annotations

from pathlib import Path

from tests.public_api import listing


def test_the_public_interface_is_the_frozen_one() -> None:
    frozen = Path(__file__).with_name("public_api.txt").read_text()
    assert listing() == frozen, (
        "if the change is meant: python -m tests.public_api > tests/public_api.txt, and CHANGELOG"
    )

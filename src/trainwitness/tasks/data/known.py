"""Data roots of published data sets, as this package encodes their training rows.

They tell a damaged copy on the verifier's side from a trace that names other data. `tests/tasks` recomputes them.
"""

from __future__ import annotations

KNOWN_ROOTS: dict[str, str] = {
    "adult": "dcccf5efb708d8154df11fb4d8aae38de87a6f10909c020f354c0515946dfba2",
    "cifar10 (first 10,000 rows)": "0543cdf3dbdf1710f11fff631f9c4126fb3d6ae00f7fb3cd237527aec9bfc271",
    "digits": "079048291fa7bec56665e7ed09c2ea13dabdf634ef337825f08cb1fde47ab9dd",
    "imdb (5,000 rows)": "b6a102f82cb4bf71c5174aae5b4adb49cd2e1600af709017fb9847d05234036b",
    "mnist": "b57acaaa640c320150e0d5d38a09403b3df2a738c1fdfc290f677b9988650a9c",
}


def published(root: str) -> str | None:
    """The name of the published data set that has this root."""
    return next((name for name, known in KNOWN_ROOTS.items() if known == root), None)

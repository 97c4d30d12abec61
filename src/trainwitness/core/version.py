"""The installed version, without importing anything heavy."""

from __future__ import annotations

from importlib import metadata


def version() -> str:
    """The version of the installed package; `unknown` from a bare source tree."""
    try:
        return metadata.version("trainwitness")
    except metadata.PackageNotFoundError:
        return "unknown"

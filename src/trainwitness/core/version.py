"""The installed version and the revision it was built from, without importing anything heavy."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

_PACKAGE = Path(__file__).parents[1]


def version() -> str:
    """The version of the installed package; `unknown` from a bare source tree."""
    try:
        return metadata.version("trainwitness")
    except metadata.PackageNotFoundError:
        return "unknown"


def revision() -> str | None:
    """The git revision of this code: written into wheels when they are built, asked of git in a checkout.

    Git is asked about the folder this code itself was loaded from, never about the user's.
    """
    written = _PACKAGE / "revision.txt"
    if written.is_file():
        return written.read_text(encoding="utf-8").strip()
    checkout = _PACKAGE.parents[1]
    if not ((checkout / ".git").exists() and (checkout / "pyproject.toml").is_file()):
        return None
    import subprocess

    command = ["git", "-C", str(checkout), "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()

"""Optional parts: a missing package is one sentence, not a traceback."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from trainwitness.core.errors import UsageError


@contextmanager
def extra(name: str) -> Iterator[None]:
    """Imports inside the block belong to the extra `name`."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("trainwitness"):
            raise
        raise UsageError(f"{error.name} is not installed", hint=f"pip install 'trainwitness[{name}]'") from error

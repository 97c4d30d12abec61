"""Results of any verb, read back from their JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainwitness.core.errors import ResultDamaged
from trainwitness.core.result import SCHEMA

MAX_BYTES = 1 << 28


@dataclass(frozen=True)
class Envelope:
    """What `--json` wrote, and the name of its file."""

    name: str
    kind: str
    command: Sequence[str]
    environment: dict[str, Any]
    result: dict[str, Any]


def read_envelope(path: Path) -> Envelope:
    """One result. Whoever wrote the file may be a stranger: its text is shown and never obeyed."""
    hint = "give files that a verb wrote with --json"
    try:
        if not path.is_file():
            what = "a folder" if path.is_dir() else "no such file"
            raise ResultDamaged(f"{path}: {what}, not a result", hint=hint)
        if path.stat().st_size > MAX_BYTES:
            raise ResultDamaged(f"{path}: larger than {MAX_BYTES:,} bytes; no result is", hint=hint)
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ResultDamaged(f"{path}: cannot be read: {error.strerror}", hint=hint) from error
    except (ValueError, RecursionError) as error:
        raise ResultDamaged(f"{path}: not JSON: {error}", hint=hint) from error
    return _checked(path, content)


def _checked(path: Path, content: Any) -> Envelope:
    if not isinstance(content, dict) or content.get("schema") != SCHEMA:
        found = content.get("schema") if isinstance(content, dict) else None
        raise ResultDamaged(
            f"{path}: not a result of trainwitness: schema {found!r}, expected {SCHEMA!r}",
            hint="give files that a verb wrote with --json",
        )
    types = {"kind": str, "command": list, "environment": dict, "result": dict}
    for key, kind in types.items():
        if not isinstance(content.get(key), kind):
            raise ResultDamaged(f"{path}: {key} is not a {kind.__name__}", hint="was the file changed by hand?")
    return Envelope(
        name=path.name,
        kind=content["kind"],
        command=[str(word) for word in content["command"]],
        environment=content["environment"],
        result=content["result"],
    )

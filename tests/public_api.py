"""The public interface as text: names with their signatures, verbs with their options.

`python -m tests.public_api > tests/public_api.txt` accepts a change; CHANGELOG.md tells users of it.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import typer
from pydantic import BaseModel

import trainwitness
from trainwitness.cli.main import app


def listing() -> str:
    """One line per name, method and verb."""
    lines = [line for name in sorted(trainwitness.__all__) for line in _name(name, getattr(trainwitness, name))]
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    lines += [_verb(name, commands[name].params) for name in sorted(commands)]
    return "\n".join(lines) + "\n"


def _name(name: str, value: Any) -> Iterator[str]:
    if inspect.ismodule(value):
        for member in sorted(value.__all__):
            yield from _name(f"{name}.{member}", getattr(value, member))
        return
    if not inspect.isclass(value):
        yield f"{name}{_signature(value)}"
        return
    if issubclass(value, BaseModel):
        yield f"class {name}: {', '.join(value.model_fields)}"
    else:
        yield f"class {name}{_signature(value)}"
    for member, found in sorted(vars(value).items()):
        if member.startswith("_") or member.startswith("model_"):
            continue
        plain = found.__func__ if isinstance(found, (classmethod, staticmethod)) else found
        if inspect.isfunction(plain) and not _inherited(value, member, plain):
            yield f"  {name}.{member}{_signature(plain)}"


def _inherited(kind: type, member: str, found: Any) -> bool:
    """Whether it is a base's own: PyTorch puts `step`, wrapped, into every class of optimisers once it is used."""
    bases = [vars(base).get(member) for base in kind.__mro__[1:]]
    return any(inspect.unwrap(other) is inspect.unwrap(found) for other in bases if inspect.isfunction(other))


def _signature(value: Any) -> str:
    """Parameters without their types: names, kinds and whether they may be left out."""
    words, keyword_only = [], False
    for parameter in inspect.signature(value).parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and not keyword_only:
            words.append("*")
            keyword_only = True
        star = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
        optional = "" if parameter.default is parameter.empty else "=..."
        words.append(f"{star}{parameter.name}{optional}")
    return f"({', '.join(words)})"


def _verb(name: str, parameters: Any) -> str:
    words = [p.opts[0] if p.param_type_name == "option" else p.name.upper() for p in parameters if p.name != "help"]
    return f"trainwitness {name} {' '.join(words)}"


if __name__ == "__main__":
    print(listing(), end="")

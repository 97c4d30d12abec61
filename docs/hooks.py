"""Fills `reference/commands.md` from the command line itself, so that it cannot be out of date."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import typer

from trainwitness.cli.main import app

MARK = "<!-- the verbs -->"


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Called by mkdocs for every page."""
    return markdown.replace(MARK, "\n\n".join(_verbs())) if MARK in markdown else markdown


def _verbs() -> Iterator[str]:
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    for name in sorted(commands):
        about, *examples = (commands[name].help or "").split("Example: ")
        shown = "\n".join(" ".join(example.split()) for example in examples)
        yield f"## {name}\n\n{about.strip()}\n\n```sh\n{shown}\n```\n\n{_table(commands[name].params)}"


def _table(parameters: list[Any]) -> str:
    rows = ["| option | meaning | default |", "| --- | --- | --- |"]
    for one in parameters:
        if one.name == "help":
            continue
        option = one.param_type_name == "option"
        name = f"`{one.opts[0]}`" if option else f"`{(one.metavar or one.name.upper())}`".replace("|", "\\|")
        default = "" if one.default in (None, False) or not option else f"`{one.default}`"
        text = re.sub(r"\s+", " ", getattr(one, "help", None) or "")
        rows.append(f"| {name} | {text} | {'required' if one.required else default} |")
    return "\n".join(rows)

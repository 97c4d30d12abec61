"""Fills `reference/commands.md` from the command line itself, so that it cannot be out of date.

Links to files of the repository outside `docs/` work there; on the site they become the file's name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import typer

from trainwitness.cli.main import app

MARK = "<!-- the verbs -->"
LINK = re.compile(r"\[([^\]]+)\]\(((?:\.\./)+)([^)#]+)\)")


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Called by mkdocs for every page."""
    depth = page.file.src_uri.count("/")

    def outside(link: re.Match[str]) -> str:
        return f"{link[1]} (`{link[3]}`)" if link[2].count("../") > depth else link[0]

    markdown = LINK.sub(outside, markdown)
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

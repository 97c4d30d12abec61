"""The commands of a documentation page, as a reader would type them.

In fenced blocks marked `sh` every line is one; in transcripts those after `$ `; in indented blocks those that begin
with `trainwitness`. `# exit code N` says how it ends. `<!-- before: COMMAND -->` sets a scene that the page takes
for granted, `<!-- not run: WHY -->` before a block names what a machine may lack. A block titled `NAME.py` is that
file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

FENCE = re.compile(r"^ *```(\S*)(.*)$")
COMMENT = re.compile(r"^ *<!-- (before|not run): (.*) -->$")


@dataclass(frozen=True)
class Command:
    """A line to run and the exit code it must have; or, with `why_not`, to check only for its verb and options."""

    line: str
    code: int = 0
    why_not: str = ""


@dataclass(frozen=True)
class File:
    """A file that the reader is asked to write."""

    name: str
    content: str


def steps_of(page: Path) -> Iterator[Command | File]:
    """What a reader does on this page, in order."""
    why_not, block, info, title = "", None, "", ""
    for line in page.read_text(encoding="utf-8").splitlines():
        if block is not None:
            if FENCE.match(line) and not line.strip().strip("`"):
                yield from _block(block, info, title, why_not)
                block, why_not = None, ""
            else:
                block.append(line)
        elif found := COMMENT.match(line):
            if found[1] == "before":
                yield _command(found[2])
            else:
                why_not = found[2]
        elif found := FENCE.match(line):
            block, info, title = [], found[1], found[2]
        elif line.startswith("    trainwitness "):
            yield _command(line, why_not)
    assert block is None, f"{page}: a block is not closed"


def _block(lines: list[str], info: str, title: str, why_not: str) -> Iterator[Command | File]:
    name = re.search(r'title="([^"]+)"', title)
    if name:
        yield File(name[1], "\n".join(lines) + "\n")
    elif info in ("sh", "console", ""):
        for line in lines:
            if line.lstrip().startswith("$ "):
                yield _command(line.lstrip()[2:], why_not)
            elif info == "sh" and line.strip():
                yield _command(line, why_not)


def _command(line: str, why_not: str = "") -> Command:
    typed, _, comment = line.partition("  # ")
    code = re.search(r"exit code (\d+)", comment)
    return Command(typed.strip(), int(code[1]) if code else 0, why_not)

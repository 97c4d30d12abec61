"""docs/commitments.md, executed: every command, in order, with the output it promises."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

from typer.testing import CliRunner

from trainwitness.cli.main import app

DOCUMENT = Path(__file__).parents[2] / "docs" / "commitments.md"
CODES = {"REJECT": 1, "REFUSED": 1, "INCONCLUSIVE": 4, "error": 2}


def blocks() -> Iterator[tuple[str, str]]:
    yield from re.findall(r"^```(\w+)\n(.*?)^```$", DOCUMENT.read_text(), re.DOTALL | re.MULTILINE)


def commands(text: str) -> Iterator[tuple[str, list[str]]]:
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, *expected = part.rstrip("\n").split("\n")
        yield command, expected


def assert_output(expected: list[str], found: str) -> None:
    """`...` stands for anything: alone for any lines, within a line for any text."""
    pattern = "".join(
        r"(?:.*\n)*?" if line == "..." else ".*".join(map(re.escape, line.split("..."))) + r"\n" for line in expected
    )
    assert re.match(pattern, found), f"{found}\n--- does not match ---\n" + "\n".join(expected)


def test_the_stories_are_true(tmp_path: Path) -> None:
    count = 0
    with contextlib.chdir(tmp_path):
        for kind, text in blocks():
            if kind == "python":
                name = text.split("\n", 1)[0].removeprefix("# ")
                Path(name).write_text(text)
                if name == "save.py":
                    exec(compile(text, name, "exec"), {})
                continue
            for command, expected in commands(text):
                program, *arguments = shlex.split(command)
                assert program == "trainwitness"
                done = CliRunner().invoke(app, arguments, env=os.environ | {"TRAINWITNESS_DATA": ""})
                code = CODES.get(re.split(r"\W", expected[0])[0], 0)
                assert done.exit_code == code, f"{command}\n{done.output}"
                assert_output(expected, done.output)
                count += 1
    assert count >= 25

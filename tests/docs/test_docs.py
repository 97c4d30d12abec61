"""Every command of the documentation is run as it stands, and the site builds without the network."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from tests.cli.test_cli import run
from tests.docs.commands import Command, File, steps_of
from trainwitness.cli.main import app

ROOT = Path(__file__).parents[2]
STORIES = ROOT / "docs" / "commitments.md"
"""Its two stories need files between the commands; tests/cli/test_stories.py runs them."""
PAGES = [ROOT / "README.md", *sorted(set((ROOT / "docs").rglob("*.md")) - {STORIES})]
COMMANDS = typer.main.get_command(app).commands  # type: ignore[attr-defined]
REAL_DATA = re.compile(r"\b(mnist|adult|cifar10|imdb)\b")
NOT_OURS = ("pip ", "make ", "git ", "cd ", "apt-get ")
DATA = os.environ.get("TRAINWITNESS_DATA")
TIMEOUT_SECONDS = 900


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_command_has_a_verb_and_options_that_exist(page: Path) -> None:
    for step in steps_of(page):
        if isinstance(step, Command) and step.line.startswith("trainwitness "):
            check_options(step.line)


def check_options(line: str) -> None:
    verb, *words = shlex.split(line.partition(" > ")[0])[1:]
    if verb.startswith("--"):
        return
    COMMANDS[verb].make_context(verb, words)


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in PAGES if list(steps_of(page))], ids=name_of)
def test_every_command_works(page: Path, tmp_path: Path) -> None:
    for step in steps_of(page):
        if isinstance(step, File):
            (tmp_path / step.name).write_text(step.content)
        elif not (step.why_not or step.line.startswith(NOT_OURS)) and (DATA or not REAL_DATA.search(step.line)):
            run_step(step, tmp_path)


def run_step(step: Command, folder: Path) -> None:
    first, *words = shlex.split(step.line)
    if first == "trainwitness" and ">" not in words:
        run(*words, cwd=folder, code=step.code, env={"TRAINWITNESS_DATA": DATA or ""})
        return
    assert first in ("python", "trainwitness"), f"how is {step.line!r} run?"
    scripts = str(Path(sys.executable).parent)
    path = {"PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        step.line, shell=True, cwd=folder, env=os.environ | path, capture_output=True, text=True,
        check=False, timeout=TIMEOUT_SECONDS,
    )  # fmt: skip
    assert done.returncode == step.code, done.stdout + done.stderr


@pytest.mark.slow
def test_the_site_builds_without_the_network(tmp_path: Path) -> None:
    """Strict: a broken link or a name without a docstring page is an error. No proxy leads anywhere."""
    blocked = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), "http://127.0.0.1:9")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")],
        cwd=ROOT, env=os.environ | blocked | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    for page in ("index", "tutorial", "glossary", "results", "reference/python", "reference/commands"):
        assert (tmp_path / "site" / f"{page}.html").is_file()
    assert "Recorder" in (tmp_path / "site" / "reference" / "python.html").read_text()
    assert "--calibration" in (tmp_path / "site" / "reference" / "commands.html").read_text()
    for html in (tmp_path / "site").rglob("*.html"):
        loaded = re.findall(r'<(?:script|img|iframe)[^>]+src="(https?:[^"]+)"', html.read_text())
        loaded += re.findall(r'<link[^>]+rel="stylesheet"[^>]+href="(https?:[^"]+)"', html.read_text())
        assert loaded == [], html


def test_the_examples_of_help_are_in_the_documentation_and_exist() -> None:
    for verb, command in COMMANDS.items():
        examples = (command.help or "").split("Example: ")[1:]
        assert examples, verb
        for example in examples:
            assert example.startswith(f"trainwitness {verb}")
            check_options(" ".join(example.split()))

"""What all verbs share: exit codes, progress on a terminal, and the JSON envelope."""

from __future__ import annotations

import functools
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePath
from typing import Annotated, Any, ParamSpec

import typer

from trainwitness.core.errors import StorageError, TrainwitnessError

P = ParamSpec("P")
Advance = Callable[[int], None]

JsonOption = Annotated[
    str | None,
    typer.Option("--json", metavar="PATH", help="Write the result as JSON to PATH, or to stdout with '-'."),
]
SetOption = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Another option of the task; repeatable.")
]
AttackSetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--attack-set", metavar="KEY=VALUE", help="A setting of the attack, as candidates=1000; repeatable."
    ),
]
DataOption = Annotated[
    Path | None, typer.Option("--data", metavar="DIR", help="Folder of data sets (default: $TRAINWITNESS_DATA).")
]


def verb(function: Callable[P, int]) -> Callable[P, None]:
    """Makes a function that returns an exit code a command; no traceback reaches the user."""

    @functools.wraps(function)
    def command(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            code = function(*args, **kwargs)
            sys.stdout.flush()
        except TrainwitnessError as error:
            typer.echo("error: " + printable(error.diagnostics(), keep="\n"), err=True)
            code = error.exit_code
        except KeyboardInterrupt:
            typer.echo("interrupted", err=True)
            code = 130
        except BrokenPipeError:  # the reader of our output has gone; nothing is left to say
            _close_output()
            code = 141
        except Exception as error:
            code = _internal_error(error)
        raise typer.Exit(code)

    return command


def _close_output() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _internal_error(error: Exception) -> int:
    typer.echo(f"internal error: {type(error).__name__}: {error}", err=True)
    if os.environ.get("TRAINWITNESS_DEBUG"):
        traceback.print_exception(error)
    else:
        typer.echo(
            "  this is a bug in trainwitness: run it again with TRAINWITNESS_DEBUG=1 and report what it prints",
            err=True,
        )
    return 70


class Output:
    """Where a verb's words and results go: words to stdout, or to stderr when stdout carries the JSON."""

    def __init__(self, json_path: str | None) -> None:
        self._json_path = json_path
        self._words_to_stderr = json_path == "-"

    def say(self, text: str = "") -> None:
        """A line for people. If nobody reads any more, the work and its files are still finished."""
        try:
            typer.echo(printable(text, keep="\n"), err=self._words_to_stderr)
        except BrokenPipeError:
            _close_output()

    @contextmanager
    def progress(self, what: str, total: int | None) -> Iterator[Advance]:
        """A progress bar on a terminal; silence in a pipe."""
        if not sys.stderr.isatty():
            yield lambda _: None
            return
        from rich.console import Console
        from rich.progress import Progress

        with Progress(console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task(what, total=total)
            yield lambda count: bar.update(task, advance=count)

    @contextmanager
    def status(self) -> Iterator[Callable[[str], None]]:
        """What is being done now, on a terminal; silence in a pipe."""
        if not sys.stderr.isatty():
            yield lambda _: None
            return
        from rich.console import Console

        with Console(stderr=True).status("starting") as status:
            yield status.update

    def result(self, kind: str, result: dict[str, Any]) -> None:
        """Writes the envelope, if JSON was asked for."""
        if self._json_path is None:
            return
        from trainwitness.core.environment import current_environment
        from trainwitness.core.result import Result

        command = ["trainwitness", *map(without_folder, sys.argv[1:])]
        text = Result(kind=kind, command=command, environment=current_environment(), result=result).to_json()
        if self._json_path == "-":
            typer.echo(text)
            return
        try:
            Path(self._json_path).write_text(text + "\n", encoding="utf-8")
        except OSError as error:
            raise StorageError(f"{self._json_path}: cannot be written: {error.strerror}") from error


def without_folder(word: str) -> str:
    """A word of the command line; of an absolute path only the name, since results are published."""
    return PurePath(word).name if PurePath(word).is_absolute() else word


def printable(text: str, keep: str = "") -> str:
    """Text with control characters shown, not obeyed: a trace must not forge lines or steer the terminal."""
    return "".join(c if c in keep or c.isprintable() else f"\\x{ord(c):02x}" for c in text)


def size_text(count: float) -> str:
    """A number of bytes for people."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if count < 1000 or unit == "GB":
            return f"{count:.0f} {unit}" if unit == "bytes" else f"{count:.1f} {unit}"
        count /= 1000
    raise AssertionError


def time_text(seconds: float) -> str:
    """A duration for people."""
    return f"{seconds:.1f} s" if seconds < 120 else f"{seconds / 60:.0f} min"

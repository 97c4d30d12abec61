"""`trainwitness demo`: the whole story on embedded data, as commands that anyone can repeat."""

from __future__ import annotations

import contextlib
import io
import shlex
import shutil
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from trainwitness.cli.output import JsonOption, Output, time_text

MARK = "trainwitness-demo"
"""A file in the folder: only what a demo made is ever removed."""
NONCE = "5d1c0f3a9be24c7786f0a1d2e3b4c596"
"""In earnest it comes from the verifier, after the commitment."""


@dataclass(frozen=True)
class Part:
    """One command of the story: what is said before it, how it must end, and which lines of its output are told."""

    says: str
    command: str
    code: int = 0
    shows: tuple[str, ...] = ()
    """Lines with any of these words; without any, the first line."""
    needs: str = ""
    """A module of an extra, and the extra: `module extra`."""


STORY = (
    Part("An owner trains LeNet on digits and records every step.",
         "record lenet-digits --out run.trace --steps 100 --batch-size 50 --lr 0.05 --set momentum=0.9 "
         "--json record.json", shows=("recorded 100",)),
    Part("A verifier measures how far honest recomputations differ on this machine.",
         "calibrate run.trace --out noise.json --steps 20", shows=("honest recomputations", "eps_repr")),
    Part("Every step is computed again, with another number of threads.",
         "verify run.trace --threads 2 --calibration noise.json --json honest.json",
         shows=("ACCEPT", "no error is above", "bit for bit", "established")),
    Part("Now the owner lies: other images in step 40, chosen so that their gradients nearly add up.",
         "forge run.trace --step 40 --fraction 0.2 --seconds 5 --out forged.trace --json forged.json"),
    Part("Caught: no choice of other images comes near the noise.",
         "verify forged.trace --calibration noise.json --json caught.json", 1, ("REJECT", "reproduced:", "refuted")),
    Part("A model with a narrow first layer is another matter. This time the data is committed to beforehand.",
         "commit softmax-digits --out data.commit --json committed.json", shows=("rows of",)),
    Part("The verifier gives out a nonce, which decides the seed; the owner trains.",
         f"record softmax-digits --out small.trace --steps 30 --commitment data.commit --nonce {NONCE}"),
    Part("What is benign for this model?",
         "calibrate small.trace --out small-noise.json --steps 10", shows=("eps_repr",)),
    Part("The owner replaces every image of step 10 by another valid one, with the same gradient up to rounding.",
         "forge small.trace --step 10 --fraction 1 --attack lattice --seconds 30 --out lie.trace --json lie.json",
         shows=("step 10", "float64"), needs="fpylll lattice"),
    Part("Recomputation cannot tell it from the truth: `reproduced` is established. The commitment can.",
         f"verify lie.trace --calibration small-noise.json --commitment data.commit --nonce {NONCE} "
         "--json lie-caught.json",
         1, ("REJECT", "reproduced ", "data_matches", "data_committed"), needs="fpylll lattice"),
    Part("Exact arithmetic needs no threshold: the same bits on every machine, 32 bytes a step.",
         "record lenet-digits --out exact.trace --steps 40 --precision exact"),
    Part("Verified with eps = 0.",
         "verify exact.trace --threads 1 --require exact --json exact.json", shows=("ACCEPT", "digest", "exact ")),
    Part("All of it on one page.",
         "report *.json --out report.html", needs="plotly report"),
)  # fmt: skip


def demo(
    out: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="Where everything goes; an earlier demo there is replaced.")
    ] = Path("demo"),
    json: JsonOption = None,
) -> int:
    """Tell the whole story on data that needs no download: record, verify, forge, be caught, in under two minutes.

    Example: trainwitness demo
    """
    output, started = Output(json), time.monotonic()
    _fresh_folder(out)
    done, skipped = [], []
    with contextlib.chdir(out):
        for number, part in enumerate(STORY, start=1):
            output.say(f"\n{number}. {part.says}")
            module, _, extra = part.needs.partition(" ")
            if module and find_spec(module) is None:
                output.say(f"   left out: needs pip install 'trainwitness[{extra}]'")
                skipped.append(part.command)
                continue
            output.say(f"   $ trainwitness {part.command}")
            code, lines = _run(list(_expanded(part.command)))
            told = [line for line in lines if any(word in line for word in part.shows)] if part.shows else lines[:1]
            for line in told if code == part.code else lines:
                output.say(f"   {line}")
            done.append({"command": part.command, "code": code})
            if code != part.code:
                output.say(f"   this should have ended with exit code {part.code}, not {code}")
                return 70
    page = out / "report.html"
    output.say(f"\n{time_text(time.monotonic() - started)}. Everything lies in {out}/.")
    output.say(f"Open {page} in a browser." if page.exists() else "There is no report: its extra is not installed.")
    output.result("demo", {"out": out.name, "steps": done, "left_out": skipped})
    return 0


def _expanded(command: str) -> Iterator[str]:
    """The words of a command, with files in place of *, as a shell has it."""
    for word in shlex.split(command):
        yield from sorted(str(path) for path in Path().glob(word)) if "*" in word else [word]


def _run(words: list[str]) -> tuple[int, list[str]]:
    """Runs a verb in this process, as if it had been typed; its words are returned."""
    from trainwitness.cli.main import app

    said, typed = io.StringIO(), sys.argv
    sys.argv = ["trainwitness", *words]
    try:
        with contextlib.redirect_stdout(said):
            code = app(words, standalone_mode=False)
    finally:
        sys.argv = typed
    return int(code or 0), said.getvalue().splitlines()


def _fresh_folder(out: Path) -> None:
    from trainwitness.core.errors import StorageError

    if out.exists():
        if not (out / MARK).is_file():
            raise StorageError(f"{out}: is there already and is not a demo", hint="choose another place with --out")
        shutil.rmtree(out)
    try:
        out.mkdir(parents=True)
        (out / MARK).touch()
    except OSError as error:
        raise StorageError(
            f"{out}: cannot be made: {error.strerror}", hint="choose another place with --out"
        ) from error

"""`trainwitness report`: results of any verb as one page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from trainwitness.cli.extras import extra
from trainwitness.cli.output import JsonOption, Output, size_text


def report(
    results: Annotated[list[Path], typer.Argument(metavar="RESULT...", help="Files that verbs wrote with --json.")],
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="The page to write (HTML).")] = Path(
        "report.html"
    ),
    title: Annotated[str, typer.Option(help="The page's heading.")] = "trainwitness report",
    json: JsonOption = None,
) -> int:
    """Make one page of results: verdicts in plain words, plots with their numbers, commands to repeat them.

    The page needs no network and no other file. The noise of a calibration is drawn into verdicts of the same task.

    Example: trainwitness report verdict.json cal.json --out report.html
    """
    with extra("report"):
        from trainwitness.report.page import write_page

    output = Output(json)
    size = write_page(results, out, title=title)
    output.say(f"report: {out}, {len(results)} results, {size_text(size)}")
    output.result("report", {"out": out.name, "results": [path.name for path in results]})
    return 0

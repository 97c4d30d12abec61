"""`trainwitness diff`: where two traces first differ."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from trainwitness.cli.output import JsonOption, Output


def diff(
    one: Annotated[Path, typer.Argument(help="A trace.")],
    other: Annotated[Path, typer.Argument(help="Another trace.")],
    json: JsonOption = None,
) -> int:
    """Say where two traces first differ, and in what. Exit code 0 if they do not, 1 if they do.

    Example: trainwitness diff run.trace again.trace
    """
    from trainwitness.verification.diff import diff as diff_traces

    output = Output(json)
    found = diff_traces(one, other)
    for difference in found:
        where = "manifest" if difference.step is None else f"step {difference.step}"
        output.say(f"{where}: {difference.what}")
    if not found:
        output.say("the traces record the same run, bit for bit")
    output.result("diff", {"same": not found, "differences": [asdict(difference) for difference in found]})
    return 1 if found else 0

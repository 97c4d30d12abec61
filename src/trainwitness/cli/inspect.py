"""`trainwitness inspect`: what a trace says, and whether it is whole."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trainwitness.cli.output import JsonOption, Output, printable, size_text

if TYPE_CHECKING:
    from trainwitness.trace.reader import Checked, Trace


def inspect(
    trace: Annotated[Path, typer.Argument(help="A trace folder or packed trace.")], json: JsonOption = None
) -> int:
    """Read a trace to the last byte, check every digest, and say what it records. Nothing is recomputed.

    Example: trainwitness inspect run.trace
    """
    from trainwitness.trace.reader import Trace

    output = Output(json)
    opened = Trace.open(trace)
    with output.progress("reading", opened.steps) as advance:
        checked = opened.check(advance)
    for line in _lines(opened, checked):
        output.say(printable(line))
    output.result(
        "inspect",
        {
            "path": str(trace),
            "id": opened.id,
            "sealed": opened.sealed,
            "manifest": opened.manifest.model_dump(mode="json"),
            "sessions": [session.model_dump(mode="json") for session in opened.sessions],
            "checked": asdict(checked),
        },
    )
    return 0


def _lines(trace: Trace, checked: Checked) -> list[str]:
    manifest = trace.manifest
    task = manifest.task.name if manifest.task else "a loop of its owner's own"
    options = manifest.task.options if manifest.task else {}
    code = manifest.environment.code
    dirty = {True: ", with uncommitted changes", False: ", clean", None: ""}[code.dirty]
    sealed = "sealed" if trace.sealed else "UNSEALED (interrupted)"
    per_step = checked.stored_bytes / max(checked.steps, 1)
    share = per_step / checked.parameter_bytes if checked.parameter_bytes else 0.0
    lines = [
        f"{trace.path}: {sealed}, {checked.steps} steps, all digests match",
        f"  task            {task}{f' {options}' if options else ''}",
        f"  model           {manifest.model}, {manifest.parameters:,} parameters, {manifest.optimizer}",
        f"  data            {manifest.data.name}, {manifest.data.rows:,} rows, root {manifest.data.root}",
        f"  initialisation  {manifest.initialisation}, seed {manifest.seed}; order of rows: {manifest.order}",
        f"  numerics        {manifest.numerics.precision} on {manifest.numerics.device}, "
        f"{manifest.numerics.threads} threads",
        f"  made with       trainwitness {manifest.environment.trainwitness}, torch {manifest.environment.torch}, "
        f"{manifest.environment.gpu or manifest.environment.processor}",
        f"  code            {code.revision or 'not in a git checkout'}{dirty}",
        f"  size            {size_text(checked.stored_bytes)}, {size_text(per_step)} a step "
        f"({share:.2f} of the parameters' bytes)",
        f"  step root       {checked.step_root}",
    ]
    if manifest.checkpoint_every > 1:
        lines.append(f"  States          every {manifest.checkpoint_every} steps")
    if checked.carried_rows:
        lines.append(f"  carried rows    {checked.carried_rows} rows are not the data set's but the trace's own")
    for session in trace.sessions:
        lines.append(f"  resumed at      step {session.first_step}, torch {session.environment.torch}")
    return lines

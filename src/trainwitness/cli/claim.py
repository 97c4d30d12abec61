"""`trainwitness claim`: was my example used in this training?"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trainwitness.cli.output import DataOption, JsonOption, Output

if TYPE_CHECKING:
    from trainwitness.audit.claim import Use

SHOWN = 10


def claim(
    trace: Annotated[Path, typer.Argument(help="A trace folder or packed trace.")],
    example: Annotated[
        Path,
        typer.Option("--example", metavar="FILE", help="The raw input as .npy, or x and y in an .npz."),
    ],
    label: Annotated[int | None, typer.Option(help="Its label, if the file has none.")] = None,
    near: Annotated[
        float, typer.Option(min=0, max=1, help="How much of the domain's range a near copy may differ by (rms).")
    ] = 0.03,
    task: Annotated[str | None, typer.Option(metavar="TASK", help="The task, if it is not a built-in one.")] = None,
    data: DataOption = None,
    json: JsonOption = None,
) -> int:
    """Look for an example in all a trace says it used: exact, scaled, mixed with another row, or nearly the same.

    In steps of a single example the States themselves give the example away, whatever the trace says of its batch.
    Exit code 1 if it was found. Nothing found means: not in what the trace claims to have used.

    Example: trainwitness claim run.trace --example mine.npy
    """
    from trainwitness.audit.claim import check_claim, load_example
    from trainwitness.trace.reader import Trace
    from trainwitness.verification.resolve import resolve_task

    output = Output(json)
    opened = Trace.open(trace)
    built = resolve_task(task, opened.manifest, data)
    inputs, own_label = load_example(example, built.dataset)
    with output.progress("looking", opened.steps) as advance:
        found = check_claim(opened, built, inputs, own_label if label is None else label, near=near, on_step=advance)
    output.say(f"looked through {found.contents:,} contents of {found.steps:,} steps")
    for use in found.uses[:SHOWN]:
        output.say(_line(use))
    if len(found.uses) > SHOWN:
        output.say(f"  and {len(found.uses) - SHOWN} more")
    if found.by_gradient:
        steps = ", ".join(map(str, found.by_gradient[:SHOWN]))
        output.say(f"  steps {steps} were computed from this input: with one example the gradient is its own")
    for note in found.notes:
        output.say(f"note: {note}")
    output.say("FOUND" if found.found else "not found")
    output.result("claim", {"found": found.found, **asdict(found)})
    return 1 if found.found else 0


def _line(use: Use) -> str:
    copy = use.copy
    how = {
        "exact": "the same",
        "scaled": f"{copy.share:.3g} times the example",
        "mixed": f"{copy.share:.2f} of the example and {1 - copy.share:.2f} of row {copy.partner}",
        "near": f"differs by {copy.distance:.3g}",
    }[copy.kind]
    where = "a row that the trace carries" if use.row is None else f"row {use.row}"
    label = {None: "", True: ", same label", False: ", another label"}[use.same_label]
    steps = ", ".join(map(str, use.steps[:3])) + (", ..." if len(use.steps) > 3 else "")
    return f"  {copy.kind:<7} {where}: {how}{label}; {len(use.steps)} steps ({steps})"

"""`trainwitness certificate`: no other choice of rows from a pool gives a step's exact gradient."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from trainwitness.cli.output import DataOption, JsonOption, Output, time_text


def certificate(
    trace: Annotated[Path, typer.Argument(help="A trace folder or packed trace.")],
    step: Annotated[int, typer.Option(min=0, help="The step.")] = 0,
    pool: Annotated[int, typer.Option(min=1, help="Rows in the pool, the step's own batch included.")] = 1000,
    bits: Annotated[int, typer.Option(min=1, max=60, help="Fractional bits of the fixed point.")] = 26,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the pool and of the parameters looked at.")] = 0,
    task: Annotated[str | None, typer.Option(metavar="TASK", help="The task, if it is not a built-in one.")] = None,
    data: DataOption = None,
    json: JsonOption = None,
) -> int:
    """Prove that no other multiset of rows from a pool has the same exact, unrounded gradient sum (Baluta et al.).

    Exit code 0 if it is proved, 1 if the gradients are not independent modulo 2.

    Example: trainwitness certificate run.trace --step 10 --pool 1000
    """
    from trainwitness.forging.certificate import NOT_COVERED, certify_step
    from trainwitness.trace.reader import Trace
    from trainwitness.training.stepper import Stepper
    from trainwitness.verification.resolve import numerics_for, resolve_task

    output = Output(json)
    opened = Trace.open(trace)
    stepper = Stepper(resolve_task(task, opened.manifest, data), numerics_for(opened.manifest, None))
    with output.progress("gradients", pool) as advance:
        found = certify_step(opened, stepper, step, pool=pool, fraction_bits=bits, seed=seed, advance=advance)
    what = f"rank {found.rank} of {found.examples} over GF(2), {found.columns:,} of {found.parameters:,} parameters"
    output.say(f"{'CERTIFIED' if found.holds else 'NOT CERTIFIED'}: {what}, {time_text(found.seconds)}")
    if found.holds:
        output.say(
            f"no other multiset of rows from this pool of {found.examples} has the same exact sum of gradients "
            f"with {found.fraction_bits} fractional bits"
        )
    else:
        output.say("this says nothing either way: gradients may be independent although their last bits are not")
    for gap in NOT_COVERED:
        output.say(f"not covered: {gap}")
    result = {**asdict(found), "holds": found.holds, "step": step, "not_covered": list(NOT_COVERED)}
    output.result("certificate", result)
    return 0 if found.holds else 1

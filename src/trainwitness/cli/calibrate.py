"""`trainwitness calibrate`: how far honest recomputations differ on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trainwitness.cli.output import DataOption, JsonOption, Output, SetOption, time_text
from trainwitness.cli.record import PrecisionChoice, task_spec, wrong_options

if TYPE_CHECKING:
    from trainwitness.core.numerics import Numerics
    from trainwitness.tasks.task import TaskSpec
    from trainwitness.verification.calibration import Calibration

LONGEST = 1000
"""Of a longer trace, the first steps are calibrated on unless told otherwise."""


def calibrate(
    subject: Annotated[
        str, typer.Argument(metavar="TASK|TRACE", help="A task, or a trace whose task is calibrated.")
    ],
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="Where the calibration is written (JSON).")],
    repeats: Annotated[int, typer.Option(min=1, help="Recomputations of each sampled step.")] = 10,
    steps: Annotated[int, typer.Option(min=1, help="Sampled steps.")] = 50,
    horizon: Annotated[
        int | None,
        typer.Option(min=1, help="Steps to train; the sampled ones are spread over them."),
    ] = None,
    batch_size: Annotated[int | None, typer.Option(min=1, help="Examples per step.")] = None,
    lr: Annotated[float | None, typer.Option(min=0, help="Learning rate.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed of the run that is calibrated on.")] = None,
    precision: Annotated[PrecisionChoice | None, typer.Option(help="Arithmetic (float32, or the trace's).")] = None,
    device: Annotated[str | None, typer.Option(help="cpu, cuda, ... (cpu, or the trace's if it is here).")] = None,
    threads: Annotated[int | None, typer.Option(min=1, help="CPU threads (default: PyTorch's choice).")] = None,
    option: SetOption = None,
    data: DataOption = None,
    json: JsonOption = None,
) -> int:
    """Train a task here and measure how far honest recomputations of its steps differ, source by source.

    Of a trace only the task's name and options and the precision are used, never its States: whoever made the trace
    could have made them noisy. The run that is calibrated on has a seed of its own.

    Example: trainwitness calibrate run.trace --out cal.json
    """
    from trainwitness.tasks.registry import build_task
    from trainwitness.verification.calibration import calibrate as calibrate_task

    output = Output(json)
    spec, numerics, length = _subject(
        subject, task_spec(subject, option, batch_size=batch_size, learning_rate=lr, seed=seed)
    )
    given = {"precision": precision, "device": device, "threads": threads}
    with wrong_options():
        chosen = numerics.model_validate(numerics.model_dump() | {k: v for k, v in given.items() if v is not None})
    horizon = max(steps, min(length, LONGEST)) if horizon is None else horizon
    with output.progress(f"calibrating {spec.name}", horizon) as advance:
        found = calibrate_task(
            build_task(spec, data=data),
            numerics=chosen,
            repeats=repeats,
            steps=steps,
            horizon=horizon,
            on_step=advance,
        )
    say_calibration(output, found)
    result = found.model_dump(mode="json")
    Output(str(out)).result("calibrate", result)
    output.say(f"calibration: {out}")
    output.result("calibrate", result)
    return 0


def _subject(subject: str, spec: TaskSpec) -> tuple[TaskSpec, Numerics, int]:
    """The task to calibrate, the Numerics to start from, and how long a trace is, if the subject is one."""
    from trainwitness.core.errors import UsageError
    from trainwitness.core.numerics import Numerics
    from trainwitness.core.seeds import derive
    from trainwitness.trace.reader import Trace
    from trainwitness.verification.resolve import numerics_for

    if not Path(subject).exists():
        return spec, Numerics(), 0
    trace = Trace.open(subject)
    stated = trace.manifest.task
    if stated is None or ":" in stated.name:
        raise UsageError(
            f"the trace was recorded with {stated.name if stated else 'a loop of its own'}",
            hint="calibrate the task by name: package.module:function, with the same --set options",
        )
    own_seed = {"seed": derive(trace.manifest.seed, "calibration") % 2**31}
    return (
        stated.model_copy(update={"options": stated.options | own_seed | spec.options}),
        numerics_for(trace.manifest, None),
        trace.steps,
    )


def say_calibration(output: Output, found: Calibration) -> None:
    """The distributions for people."""
    from trainwitness.verification.noise import SOURCES

    output.say(
        f"{len(found.samples)} honest recomputations of {found.steps} steps in {time_text(found.seconds)}, "
        f"{found.numerics.precision} on {found.numerics.device}"
    )
    output.say(f"{'source':<15}{'largest':>10}{'99%':>10}{'median':>10}{'count':>7}{'exact':>7}  what varied")
    for name, source in sorted(found.sources.items(), key=lambda item: -item[1].all.largest):
        spread = source.all
        output.say(
            f"{name:<15}{spread.largest:>10.2e}{spread.quantile_99:>10.2e}{spread.median:>10.2e}"
            f"{spread.count:>7}{spread.exactly_zero:>7}  {SOURCES[name]}"
        )
    for name, why in found.unavailable.items():
        output.say(f"{name:<15}not available: {why}")
    output.say(f"eps_repr (largest): {found.eps_repr:.2e}")

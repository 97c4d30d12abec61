"""`trainwitness leak`: what a shared gradient gives away."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trainwitness.cli.output import DataOption, JsonOption, Output, SetOption
from trainwitness.cli.record import task_spec

if TYPE_CHECKING:
    from trainwitness.audit.leak import LeakReport


def leak(
    subject: Annotated[
        str, typer.Argument(metavar="TASK|MODEL", help="A task, or package.module:function of your own (see below).")
    ],
    batch_size: Annotated[int, typer.Option(min=1, help="Examples in the batch whose gradient is shared.")] = 8,
    stage: Annotated[
        str | None, typer.Option(help="untrained, mid (200 steps) or trained (1,000 steps), by the task's schedule.")
    ] = None,
    defence: Annotated[
        str | None, typer.Option(metavar="NAME[:STRENGTH]", help="What is done to the gradient first; list below.")
    ] = None,
    attack: Annotated[str, typer.Option(help="On the inputs: auto, analytic, sparse, dlg, ig or none.")] = "auto",
    iterations: Annotated[int, typer.Option(min=1, help="Of dlg and ig.")] = 500,
    restarts: Annotated[int, typer.Option(min=1, help="Of dlg and ig, in one batch.")] = 1,
    batches: Annotated[int, typer.Option(min=1, help="Random batches whose labels are attacked.")] = 5,
    risk: Annotated[bool, typer.Option("--risk/--no-risk", help="Also attack labels at other batch sizes.")] = True,
    gradient: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Attack this gradient (safetensors, parameter names).")
    ] = None,
    weights: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The model's parameters (safetensors) instead of a stage.")
    ] = None,
    pictures: Annotated[
        Path | None, typer.Option(metavar="PNG", help="Write true and restored images as one picture.")
    ] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda, ...")] = "cpu",
    precision: Annotated[str, typer.Option(help="float32 or float64.")] = "float32",
    option: SetOption = None,
    data: DataOption = None,
    json: JsonOption = None,
) -> int:
    """Attack a batch's gradient: which labels, which inputs, and what cannot be recovered. Exit code 1: a finding.

    MODEL is your own function: it returns a trainwitness.Task, or (model, inputs, labels) for one batch.

    Defences: gaussian:VAR, laplacian:VAR, float16, int8, prune:SHARE, clip:NORM:MULTIPLIER.

    Example: trainwitness leak mlp-digits --batch-size 4 --defence gaussian:1e-3
    """
    from trainwitness.audit.leak import leak as audit
    from trainwitness.audit.leak_inputs import ATTACKS
    from trainwitness.audit.leak_subject import subject_of
    from trainwitness.core.errors import UsageError
    from trainwitness.core.numerics import Numerics
    from trainwitness.leakage.defences import parse

    output = Output(json)
    if attack not in ATTACKS:
        raise UsageError(f"unknown attack {attack!r}", hint=f"attacks: {', '.join(ATTACKS)}")
    if precision not in ("float32", "float64"):
        raise UsageError(f"precision {precision!r}", hint="float32 or float64")
    chosen = None if defence is None else parse(defence)
    numerics = Numerics(precision=precision, device=device)  # type: ignore[arg-type]
    with output.status() as say:
        say("training" if stage in ("mid", "trained") else "building the model")
        found = audit(
            subject_of(
                task_spec(subject, option),
                stage=stage,
                data=data,
                numerics=numerics,
                gradient=gradient,
                weights=weights,
            ),
            batch_size=batch_size,
            defence=chosen,
            batches=batches,
            attack=attack,
            iterations=iterations,
            restarts=restarts,
            risk=risk,
            advance=say,
        )
    say_leak(output, found)
    if pictures is not None:
        if not found.inputs.pictures:
            raise UsageError("there are no pictures to write", hint="the inputs are no images, or were not attacked")
        from trainwitness.report.picture import pixels_of, side_by_side, write_png

        write_png(pictures, side_by_side([[pixels_of(image) for image in line] for line in found.inputs.pictures]))
        output.say(f"pictures: {pictures} (true above restored)")
    output.result("leak", found.to_json())
    return 1 if found.finding else 0


def say_leak(output: Output, found: LeakReport) -> None:
    """The report for people."""
    from trainwitness.experiments.experiment import cell, table

    output.say(f"{found.subject}, {found.stage}, batch of {found.batch_size}, defence: {found.defence}")
    output.say(f"labels: {found.label_verdict}")
    output.say(f"inputs: {found.inputs.verdict} ({found.inputs.attack})")
    space = found.inputs.open_directions
    if space is not None:
        output.say(
            f"open: {space.undetermined} of {space.dimensions} directions of the inputs leave the gradient as it is, "
            f"{space.faint} more change it less than float32 rounding"
        )
    output.say()
    rows = [
        {"method": leak.method, "LeAcc": leak.le_acc, "LnAcc": leak.ln_acc, "own confidence": leak.confidence}
        for leak in found.labels
    ]
    for line in table(rows):
        output.say("  " + line)
    if found.guessing is not None:
        output.say(f"  guessing by class frequencies: LnAcc {cell(found.guessing)}; batches: {found.batches}")
    for one in found.inputs.quality:
        likeness = "" if one.ssim is None else f", SSIM {one.ssim:.2f}"
        output.say(f"  example {one.truth}: PSNR {one.psnr:.1f} dB{likeness}")
    if found.risk:
        output.say("\nlabels at other batch sizes:")
        for line in table(found.risk):
            output.say("  " + line)

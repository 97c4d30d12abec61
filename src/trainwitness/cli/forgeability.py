"""`trainwitness forgeability`: could a step of your own model be forged?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trainwitness.cli.output import DataOption, JsonOption, Output, SetOption
from trainwitness.cli.record import task_spec

if TYPE_CHECKING:
    from trainwitness.audit.forgeability import Forgeability
    from trainwitness.core.verdict import Threshold
    from trainwitness.forging.problem import Problem
    from trainwitness.tasks.task import Task, TaskSpec


def forgeability(
    subject: Annotated[str, typer.Argument(metavar="TASK|TRACE", help="A task to be trained here, or a trace.")],
    step: Annotated[int, typer.Option(min=0, help="The step to attack.")] = 0,
    calibration: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Take the tolerance from a calibration of this task.")
    ] = None,
    pictures: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write original and forged images side by side (PNG).")
    ] = None,
    arrays: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write both batches and the parameters as arrays (.npz)."),
    ] = None,
    seconds: Annotated[float, typer.Option(min=0.1, help="Time for each attack.")] = 60.0,
    batch_size: Annotated[int | None, typer.Option(min=1, help="Examples per step (of a task).")] = None,
    task: Annotated[str | None, typer.Option(metavar="TASK", help="A trace's task, if not a built-in one.")] = None,
    option: SetOption = None,
    data: DataOption = None,
    json: JsonOption = None,
) -> int:
    """Say what other batch could hide behind a step: of real numbers, of valid ones within tolerance, bit for bit.

    Each is shown, not found with this effort, or excluded by an argument. Exit code 1 if a valid forgery was shown.

    Example: trainwitness forgeability softmax-digits --step 20 --pictures forged.png
    """
    from trainwitness.audit.forgeability import ATTACKS
    from trainwitness.audit.forgeability import forgeability as audit

    output = Output(json)
    problem = _problem(subject, step, task, task_spec(subject, option, batch_size=batch_size), data, seconds)
    threshold = None if calibration is None else _threshold(calibration, problem)
    with output.progress("attacking", len(ATTACKS)) as advance:
        found = audit(problem, threshold=threshold, on_attack=lambda _: advance(1))
    _say(output, found)
    if pictures is not None:
        _draw(output, pictures, found)
    if arrays is not None and found.best is not None:
        from trainwitness.audit.arrays import arrays as plain_arrays
        from trainwitness.audit.arrays import write_arrays

        write_arrays(arrays, plain_arrays(problem, found.best))
        output.say(f"arrays: {arrays} (check them with docs/check_forgery.py)")
    output.result("forgeability", found.to_json())
    return 1 if found.shown else 0


def _problem(subject: str, step: int, task: str | None, spec: TaskSpec, data: Path | None, seconds: float) -> Problem:
    """The step of a trace, or of a run of the task up to it."""
    from trainwitness.core.errors import UsageError
    from trainwitness.forging.forge import step_problem
    from trainwitness.forging.problem import make_problem
    from trainwitness.tasks.registry import build_task
    from trainwitness.trace.reader import Trace
    from trainwitness.training.stepper import Stepper
    from trainwitness.verification.resolve import numerics_for, resolve_task

    if Path(subject).exists():
        if spec.options:
            raise UsageError("a trace has its task's options", hint="leave out --batch-size and --set")
        opened = Trace.open(subject)
        stepper = Stepper(resolve_task(task, opened.manifest, data), numerics_for(opened.manifest, None))
        size = _pool(stepper.task)
        return step_problem(opened, stepper, step, fraction=1.0, pool_size=size, seconds=seconds)
    built = build_task(spec, data=data)
    stepper = Stepper(built)
    for number in range(step):
        stepper.run(built.schedule.batch(number))
    before, batch = stepper.state(), built.schedule.batch(step)
    after = stepper(before, batch)
    return make_problem(
        stepper, before, after, batch, positions=range(batch.size), pool_size=_pool(built), seconds=seconds
    )


def _pool(task: Task) -> int:
    """Rows to choose replacements from: enough for a whole batch."""
    return max(1000, 4 * task.schedule.batch(0).size)


def _threshold(path: Path, problem: Problem) -> Threshold:
    from trainwitness.core.errors import TraceMismatch
    from trainwitness.verification.calibration import load_calibration
    from trainwitness.verification.calibration_fit import calibration_mismatches
    from trainwitness.verification.policies.extreme import Extreme

    made = load_calibration(path)
    mismatches = calibration_mismatches(made, problem.stepper.task, problem.stepper.numerics)
    if mismatches:
        raise TraceMismatch(f"the calibration does not fit: {mismatches[0]}", hint="calibrate this task here")
    return Extreme(made).threshold()


def _say(output: Output, found: Forgeability) -> None:
    free = found.freedom
    output.say(
        f"step {found.step}: {free.batch} examples of {free.inputs} numbers, {free.parameters:,} parameters; first "
        f"layer: {free.layer}"
    )
    ranks = [
        f"{name} {'not measured' if value is None else f'{value:,}'}"
        for name, value in (
            ("rank of its weights", free.rank_weights),
            ("of the errors", free.rank_errors),
            ("of the Jacobian", free.rank_jacobian),
        )
    ]
    output.say("  " + ", ".join(ranks))
    output.say(f"  dimensions of the null space: {free.null_space:,}; of the fibre by counting: {free.fibre:,}")
    output.say("  honest noise of this step: " + ", ".join(f"{k} {v:.1e}" for k, v in found.noise.items()))
    for one in found.tried:
        if one.forgery is None:
            output.say(f"  {one.attack}: does not apply: {one.why_not}")
            continue
        fine = "" if one.forgery.residual is None else f" ({one.forgery.residual:.1e} in float64)"
        outside = f"; {one.forgery.problems[0]}" if one.forgery.problems else ""
        output.say(f"  {one.attack}: error {one.forgery.error:.1e}{fine}, {one.forgery.cost.seconds:.1f} s{outside}")
    for answer in found.answers:
        output.say(f"{answer.question}: {answer.standing.upper()}")
        output.say(f"  {answer.why}")
    for line in found.advice:
        output.say(f"advice: {line}")


def _draw(output: Output, path: Path, found: Forgeability) -> None:
    from trainwitness.report.picture import side_by_side, write_png

    images = [
        (a, b) for _, a, b in found.examples if a.ndim == 3 and a.shape[0] in (1, 3) and a.dtype.name == "uint8"
    ]
    if not images:
        output.say("no pictures: no valid forgery with images was found")
        return
    write_png(path, side_by_side([[a for a, _ in images], [b for _, b in images]]))
    output.say(f"pictures: {path} (originals above, forged below)")

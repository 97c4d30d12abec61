"""`trainwitness forge`: make a trace lie, as well as any known attack can."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trainwitness.cli.output import AttackSetOption, DataOption, JsonOption, Output

if TYPE_CHECKING:
    from trainwitness.core.forgery import Forgery

MOST_SHOWN = 24
"""Examples in the JSON, over all steps."""


def forge(
    trace: Annotated[Path, typer.Argument(help="A trace folder or packed trace.")],
    out: Annotated[Path, typer.Option("--out", metavar="FORGED", help="The folder to write the forged trace into.")],
    attack: Annotated[str, typer.Option(help="How; see the list below.")] = "swap-search",
    step: Annotated[int | None, typer.Option(min=0, help="The step to forge.")] = None,
    all_occurrences: Annotated[
        bool, typer.Option("--all-occurrences", help="Forge every step that has a removed row.")
    ] = False,
    remove: Annotated[str | None, typer.Option(metavar="I,J,...", help="Rows that must not appear.")] = None,
    fraction: Annotated[float | None, typer.Option(help="Replace this share of the step's examples.")] = None,
    pool: Annotated[int, typer.Option(min=1, help="Rows to choose replacements from.")] = 2000,
    seconds: Annotated[float, typer.Option(min=0.1, help="Time for each step.")] = 60.0,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the attack.")] = 0,
    attack_set: AttackSetOption = None,
    task: Annotated[str | None, typer.Option(metavar="TASK", help="The task, if it is not a built-in one.")] = None,
    data: DataOption = None,
    json: JsonOption = None,
) -> int:
    """Replace examples of recorded batches by others that give nearly the same step, and make every digest fit.

    Attacks: swap-search, matching-pursuit, greedy, efficient-greedy, neighbour, optimise, null-space, error-matrix,
    relabel, lattice, fibre.

    Example: trainwitness forge run.trace --step 10 --remove 123 --out forged.trace
    """
    from trainwitness.core.errors import StorageError, UsageError
    from trainwitness.forging.examples import examples
    from trainwitness.forging.forge import attack as run_attack
    from trainwitness.forging.forge import step_problem, steps_with, write_forged
    from trainwitness.forging.forger import checked
    from trainwitness.tasks.registry import parse_option
    from trainwitness.trace.reader import Trace
    from trainwitness.training.stepper import Stepper
    from trainwitness.verification.resolve import numerics_for, resolve_task

    output = Output(json)
    rows = _rows(remove)
    if (step is None) == (not all_occurrences) or (all_occurrences and not rows):
        raise UsageError("which steps?", hint="give --step T, or --all-occurrences with --remove I,J,...")
    if bool(rows) == (fraction is not None):
        raise UsageError("what is to be replaced?", hint="give --remove I,J,... or --fraction F")
    if out.exists():
        raise StorageError(f"{out}: is there already", hint="choose another place with --out")
    settings = checked(attack, dict(parse_option(text) for text in attack_set or []))
    opened = Trace.open(trace)
    stepper = Stepper(resolve_task(task, opened.manifest, data), numerics_for(opened.manifest, None))
    steps = steps_with(opened, rows) if step is None else [step]
    if not steps:
        raise UsageError(f"no step has any of the rows {remove}", hint="there is nothing to forge")
    forgeries, shown = [], []
    with output.progress(f"forging with {attack}", len(steps)) as advance:
        for number in steps:
            problem = step_problem(
                opened, stepper, number, removed=rows, fraction=fraction, seed=seed, pool_size=pool, seconds=seconds
            )
            forgeries.append(run_attack(problem, attack, **settings))
            shown += examples(problem.batch, forgeries[-1], stepper.task.dataset)
            advance(1)
    write_forged(opened, out, forgeries)
    for forgery in forgeries:
        say_forgery(output, forgery)
    output.say(f"forged trace: {out}")
    told = [forgery_json(forgery) for forgery in forgeries]
    output.result("forge", {"out": str(out), "forgeries": told, "examples": shown[:MOST_SHOWN]})
    return 0


def say_forgery(output: Output, forgery: Forgery) -> None:
    """A forgery for people."""
    free = f" ({forgery.twins} rows have the same content: swapping those would be free)" if forgery.twins else ""
    output.say(
        f"step {forgery.step}: {len(forgery.replaced)} of {forgery.batch.size} examples replaced{free}; l2 error "
        f"{forgery.error:.2e} ({forgery.error / forgery.update if forgery.update else 0:.1e} of the update) in "
        f"{forgery.cost.seconds:.1f} s, {forgery.cost.candidates:,} candidates, {forgery.cost.gradients:,} gradients"
    )
    if forgery.residual is not None:
        output.say(f"  in float64 the two batches' steps differ by {forgery.residual:.1e}")
    for problem in forgery.problems:
        output.say(f"  a verifier refuses it: {problem}")


def forgery_json(forgery: Forgery) -> dict[str, Any]:
    """A forgery as plain data, without carried content."""
    return {
        "attack": forgery.attack, "step": forgery.step, "rows": [list(micro) for micro in forgery.batch.rows],
        "carried": sorted(forgery.batch.carried), "replaced": list(forgery.replaced), "error": forgery.error,
        "update": forgery.update, "residual": forgery.residual, "cost": asdict(forgery.cost),
        "problems": list(forgery.problems), "twins": forgery.twins,
    }  # fmt: skip


def _rows(text: str | None) -> list[int]:
    from trainwitness.core.errors import UsageError

    try:
        return [int(part) for part in text.split(",")] if text else []
    except ValueError as error:
        raise UsageError(f"--remove {text}: rows are whole numbers, such as 3,17") from error

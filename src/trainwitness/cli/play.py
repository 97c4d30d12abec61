"""`trainwitness play`: the forging game."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from trainwitness.cli.output import AttackSetOption, DataOption, JsonOption, Output, SetOption, time_text
from trainwitness.cli.record import PrecisionChoice, task_spec, wrong_options


def play(
    task: Annotated[str, typer.Argument(help="A built-in task, or your own as package.module:function.")],
    attack: Annotated[str, typer.Option(help="The adversary's attack (see forge).")] = "swap-search",
    rounds: Annotated[int, typer.Option(min=1, help="Rounds to play.")] = 10,
    steps: Annotated[int, typer.Option(min=1, help="Steps that the verifier trains.")] = 100,
    fraction: Annotated[float, typer.Option(min=0, max=1, help="Share of the batch to replace.")] = 1.0,
    threshold: Annotated[float | None, typer.Option(min=0, metavar="EPS", help="The verifier's threshold.")] = None,
    calibration: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The threshold of a calibration of this task.")
    ] = None,
    pool: Annotated[int, typer.Option(min=1, help="Rows to choose replacements from.")] = 2000,
    batch_size: Annotated[int | None, typer.Option(min=1, help="Examples per step.")] = None,
    seconds: Annotated[float, typer.Option(min=0.1, help="The adversary's time for each round.")] = 60.0,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the game.")] = 0,
    precision: Annotated[PrecisionChoice, typer.Option(help="Arithmetic.")] = "float32",
    device: Annotated[str, typer.Option(help="cpu, cuda, ...")] = "cpu",
    attack_set: AttackSetOption = None,
    option: SetOption = None,
    data: DataOption = None,
    json: JsonOption = None,
) -> int:
    """Play the forging game (paper 000, Algorithm 1): the verifier draws a step, the adversary forges its batch.

    Exit code 1 if the adversary won any round.

    Example: trainwitness play lenet-digits --attack swap-search --rounds 5 --threshold 1e-6
    """
    from trainwitness.core.errors import TraceMismatch, UsageError
    from trainwitness.core.numerics import Numerics
    from trainwitness.core.verdict import Threshold
    from trainwitness.forging.forger import checked
    from trainwitness.forging.game import play as play_game
    from trainwitness.tasks.registry import build_task, parse_option
    from trainwitness.verification.calibration import load_calibration
    from trainwitness.verification.calibration_fit import calibration_mismatches
    from trainwitness.verification.policies.extreme import Extreme

    output = Output(json)
    with wrong_options():
        numerics = Numerics(device=device, precision=precision)
        limit = None if threshold is None else Threshold(value=threshold)
    settings = checked(attack, dict(parse_option(text) for text in attack_set or []))
    built = build_task(task_spec(task, option, batch_size=batch_size), data=data)
    if calibration is not None and limit is None:
        made = load_calibration(calibration)
        mismatches = calibration_mismatches(made, built, numerics)
        if mismatches:
            raise TraceMismatch(f"the calibration does not fit: {mismatches[0]}", hint="calibrate this task here")
        limit = Extreme(made).threshold()
    elif calibration is not None or limit is None:
        raise UsageError("what does the verifier allow?", hint="give --threshold EPS or --calibration FILE")
    with output.progress(f"playing {attack}", rounds) as advance:
        game = play_game(
            built, attack, threshold=limit, rounds=rounds, steps=steps, fraction=fraction, numerics=numerics,
            pool_size=pool, seconds=seconds, seed=seed, settings=settings, on_round=lambda _: advance(1),
        )  # fmt: skip
    low, high = game.interval
    output.say(f"{attack} won {game.wins} of {game.rounds} rounds (95% interval {low:.2f} to {high:.2f})")
    for reason, count in sorted(game.rejected.items()):
        output.say(f"  {count} rejected: {reason}")
    errors = sorted(game.errors)
    output.say(
        f"errors {errors[0]:.2e} to {errors[-1]:.2e}, median {errors[len(errors) // 2]:.2e}, against a threshold of "
        f"{game.threshold:.2e}; {time_text(game.seconds)}"
    )
    output.result(
        "play",
        {"attack": attack, "rounds": rounds, "wins": game.wins, "interval": [low, high], "rejected": game.rejected}
        | {"threshold": game.threshold, "errors": game.errors, "steps": game.steps, "fraction": fraction},
    )
    return 1 if game.wins else 0

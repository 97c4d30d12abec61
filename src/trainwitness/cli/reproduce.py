"""`trainwitness reproduce`: the papers' tables and figures, measured here."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from trainwitness.cli.output import DataOption, JsonOption, Output


def reproduce(
    experiment: Annotated[str | None, typer.Argument(help="Which one; without it they are listed.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="A small version, under a minute on CPU.")] = False,
    device: Annotated[str, typer.Option(help="cpu, cuda, ...")] = "cpu",
    summary: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Print all results kept in DIR as one Markdown page.")
    ] = None,
    data: DataOption = None,
    json: JsonOption = None,
) -> int:
    """Measure a table or figure of the papers again and show it beside the published figures.

    Example: trainwitness reproduce reproduction-error --quick
    """
    from trainwitness.experiments.experiment import EXPERIMENTS, Setting, find, table

    output = Output(json)
    if summary is not None:
        from trainwitness.experiments.summary import markdown

        output.say(markdown(summary).rstrip())
        return 0
    if experiment is None:
        for name, (reproduces, about) in EXPERIMENTS.items():
            output.say(f"{name:<20}{reproduces:<38}{about}")
        output.result("experiments", {"experiments": {name: list(texts) for name, texts in EXPERIMENTS.items()}})
        return 0
    module = find(experiment)
    with output.status() as say:
        result = module.run(Setting(quick=quick, device=device, data=data, advance=say))
    reproduces, about = EXPERIMENTS[experiment]
    output.say(f"{about} ({reproduces}{', quick' if quick else ''})")
    for line in table(result["rows"]):
        output.say(line)
    for note in result["notes"]:
        output.say(f"note: {note}")
    output.result(f"reproduce/{experiment}", {"quick": quick, "device": device, **result})
    return 0

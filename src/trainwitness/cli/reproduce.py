"""`trainwitness reproduce`: the papers' tables and figures, measured here."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from trainwitness.cli.output import DataOption, JsonOption, Output, time_text

KEPT = Path("results")


def reproduce(
    experiment: Annotated[str | None, typer.Argument(help="Which one; without it they are listed.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Measure all of them; a second run goes on.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="A small version, under a minute on CPU.")] = False,
    device: Annotated[str, typer.Option(help="cpu, cuda, ...")] = "cpu",
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Where --all keeps its results and its report; the list looks there.")
    ] = Path("reproduced"),
    summary: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Print all results kept in DIR as one Markdown page.")
    ] = None,
    data: DataOption = None,
    json: JsonOption = None,
) -> int:
    """Measure tables and figures of the papers again and show them beside the published figures.

    Example: trainwitness reproduce reproduction-error --quick
    """
    from trainwitness.core.errors import UsageError
    from trainwitness.experiments.experiment import EXPERIMENTS, Setting, table
    from trainwitness.experiments.kept import measure

    output = Output(json)
    if sum([experiment is not None, everything, summary is not None]) > 1:
        raise UsageError("one experiment, --all or --summary?", hint="give one of them")
    if summary is not None:
        return _summary(output, summary)
    if experiment is None and not everything:
        return _list(output, [out, KEPT])
    if everything:
        return _all(output, out, quick=quick, device=device, data=data)
    assert experiment is not None
    with output.status() as say:
        result = measure(experiment, Setting(quick=quick, device=device, data=data, advance=say))
    reproduces, about = EXPERIMENTS[experiment]
    output.say(f"{about} ({reproduces}{', quick' if quick else ''})")
    for line in [*table(result["rows"]), *(f"note: {note}" for note in result["notes"])]:
        output.say(line)
    output.result(f"reproduce/{experiment}", result)
    return 0


def _summary(output: Output, folder: Path) -> int:
    from trainwitness.core.errors import UsageError
    from trainwitness.experiments.summary import markdown

    if not folder.is_dir():
        raise UsageError(f"{folder}: not a folder", hint="name a folder of results, such as results")
    output.say(markdown(folder).rstrip())
    return 0


def _list(output: Output, folders: list[Path]) -> int:
    from trainwitness.experiments.experiment import table
    from trainwitness.experiments.kept import listed

    rows = listed([folder for folder in folders if folder.is_dir()])
    for line in table(rows):
        output.say(line)
    output.say(
        "\nCommands go after `trainwitness`; without --quick they are full runs. All of them: reproduce --all --quick"
    )
    output.result("experiments", {"experiments": rows})
    return 0


def _all(output: Output, folder: Path, *, quick: bool, device: str, data: Path | None) -> int:
    from trainwitness.core.errors import UsageError
    from trainwitness.experiments.experiment import Setting
    from trainwitness.experiments.kept import measure_all

    done, failed = [], 0
    with output.status() as say:
        for outcome in measure_all(Setting(quick=quick, device=device, data=data), folder, say=say):
            if outcome.failure is not None:
                output.say(f"{outcome.name:<20} failed: {outcome.failure.diagnostics()}")
                failed += 1
                continue
            took = "-" if outcome.seconds is None else time_text(outcome.seconds)
            output.say(f"{outcome.name:<20} {took:>8}{'  (kept from before)' if outcome.resumed else ''}")
            done.append(outcome.path)
    try:
        report = _report(done, folder / "report.html")
        output.say(f"report: {report}")
    except UsageError as error:
        output.say(f"no report: {error.diagnostics()}")
    output.result("reproduce-all", {"quick": quick, "done": [path.name for path in done], "failed": failed})
    return 1 if failed else 0


def _report(results: list[Path], out: Path) -> Path:
    from trainwitness.cli.extras import extra

    with extra("report"):
        from trainwitness.report.page import write_page

    write_page(results, out, title="The papers' tables and figures, measured again")
    return out

"""The entry point: `trainwitness VERB ...`."""

from __future__ import annotations

import typer

from trainwitness.cli.calibrate import calibrate
from trainwitness.cli.demo import demo
from trainwitness.cli.diff import diff
from trainwitness.cli.forge import forge
from trainwitness.cli.inspect import inspect
from trainwitness.cli.leak import leak
from trainwitness.cli.output import verb
from trainwitness.cli.pack import pack, unpack
from trainwitness.cli.play import play
from trainwitness.cli.record import record
from trainwitness.cli.reproduce import reproduce
from trainwitness.cli.tasks import tasks
from trainwitness.cli.verify import verify
from trainwitness.core.version import version

app = typer.Typer(
    name="trainwitness",
    help="Proof of what a model was trained on: record a training run, and let anyone check it.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"trainwitness {version()}")
        raise typer.Exit


@app.callback()
def _main(
    _version: bool = typer.Option(
        False, "--version", callback=_show_version, is_eager=True, help="Show the version."
    ),
) -> None:
    pass


for function in (demo, tasks, record, calibrate, verify, diff, inspect, pack, unpack, forge, play, leak, reproduce):
    app.command()(verb(function))


def main() -> None:
    """Runs the command line."""
    app()

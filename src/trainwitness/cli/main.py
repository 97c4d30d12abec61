"""The entry point: `trainwitness VERB ...`."""

from __future__ import annotations

import typer

from trainwitness.cli.attest import attest, check
from trainwitness.cli.calibrate import calibrate
from trainwitness.cli.certificate import certificate
from trainwitness.cli.claim import claim
from trainwitness.cli.commit import commit, row
from trainwitness.cli.demo import demo
from trainwitness.cli.diff import diff
from trainwitness.cli.forge import forge
from trainwitness.cli.forgeability import forgeability
from trainwitness.cli.inspect import inspect
from trainwitness.cli.key import key
from trainwitness.cli.leak import leak
from trainwitness.cli.output import verb
from trainwitness.cli.pack import pack, unpack
from trainwitness.cli.play import play
from trainwitness.cli.proofs import check_proof, prove_absent, prove_member
from trainwitness.cli.record import record
from trainwitness.cli.report import report
from trainwitness.cli.reproduce import reproduce
from trainwitness.cli.tasks import tasks
from trainwitness.cli.timestamp import timestamp
from trainwitness.cli.verify import verify
from trainwitness.core.version import revision, version

app = typer.Typer(
    name="trainwitness",
    help="Proof of what a model was trained on: record a training run, and let anyone check it.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def _show_version(wanted: bool) -> None:
    if wanted:
        found = revision()
        typer.echo(f"trainwitness {version()}" + (f" (revision {found})" if found else ""))
        raise typer.Exit


@app.callback()
def _main(
    _version: bool = typer.Option(
        False, "--version", callback=_show_version, is_eager=True, help="Show version and revision."
    ),
) -> None:
    pass


for function in (
    demo, tasks, record, calibrate, verify, diff, inspect, pack, unpack, forge, play, forgeability, claim,
    certificate, leak, commit, row, prove_member, prove_absent, check_proof, key, timestamp, attest, check,
    reproduce, report,
):  # fmt: skip
    app.command()(verb(function))


def main() -> None:
    """Runs the command line."""
    app()

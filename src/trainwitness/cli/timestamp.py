"""`trainwitness timestamp`: have an authority say that a file existed now."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from trainwitness.cli.extras import extra
from trainwitness.cli.output import JsonOption, Output


def timestamp(
    file: Annotated[Path, typer.Argument(help="A commitment or attestation.")],
    tsa: Annotated[str, typer.Option(metavar="URL", help="A time-stamping authority (RFC 3161).")],
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="The timestamp to write.")],
    json: JsonOption = None,
) -> int:
    """Ask a time-stamping authority for a token over a file. It learns the file's SHA-256 and nothing else.

    A timestamp shows that the file existed then. It does not show that training began later; a nonce does.

    Example: trainwitness timestamp data.commit --tsa http://timestamp.example/tsr --out data.tsr
    """
    with extra("attest"):
        from trainwitness.attestation.timestamps import fetch_timestamp
    from trainwitness.core.files import read_evidence, refuse_existing, write_new

    output = Output(json)
    refuse_existing(out)
    with output.status() as say:
        say(f"asking {tsa}")
        token = fetch_timestamp(tsa, read_evidence(file))
    write_new(out, token, "writing the timestamp")
    output.say(f"timestamp: {out}")
    output.result("timestamp", {"file": file.name, "out": str(out), "bytes": len(token)})
    return 0

"""`trainwitness key`: make a signing key, or the secret for proofs of absence."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from trainwitness.cli.extras import extra
from trainwitness.cli.output import JsonOption, Output


def key(
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="Where to write it, for your eyes only.")],
    kind: Annotated[
        Literal["ed25519", "ecdsa", "secret"],
        typer.Option(help="A signing key, or the secret of a commitment's sorted tree."),
    ] = "ed25519",
    json: JsonOption = None,
) -> int:
    """Make a signing key (and FILE.pub for others), or a secret. Files with secrets get mode 600.

    Example: trainwitness key --out owner.key
    """
    import secrets

    from trainwitness.commitments.keyed import KEY_BYTES
    from trainwitness.core.files import write_new

    output = Output(json)
    if kind == "secret":
        write_new(out, secrets.token_hex(KEY_BYTES).encode() + b"\n", "writing the secret", mode=0o600)
        output.say(f"secret: {out}")
        output.result("key", {"kind": kind, "out": str(out)})
        return 0
    with extra("attest"):
        from trainwitness.attestation.keys import make_key
    public = make_key(out, kind)
    output.say(f"key: {out}; for others: {out}.pub, id {public.id}")
    output.result("key", {"kind": kind, "out": str(out), "id": public.id})
    return 0

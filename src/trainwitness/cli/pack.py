"""`trainwitness pack` and `unpack`: a trace as one file, and back."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from trainwitness.cli.output import JsonOption, Output


def pack(
    trace: Annotated[Path, typer.Argument(help="A trace folder.")],
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="The file to write.")],
    json: JsonOption = None,
) -> int:
    """Check a trace and make one file of it. Every verb reads the file as it does the folder.

    Example: trainwitness pack run.trace --out run.trace.zip
    """
    from trainwitness.trace.pack import pack as pack_trace

    return _convert(pack_trace, trace, out, "packed", json)


def unpack(
    file: Annotated[Path, typer.Argument(help="A packed trace.")],
    out: Annotated[Path, typer.Option("--out", metavar="TRACE", help="The folder to write.")],
    json: JsonOption = None,
) -> int:
    """Check a packed trace and make a folder of it.

    Example: trainwitness unpack run.trace.zip --out run.trace
    """
    from trainwitness.trace.pack import unpack as unpack_trace

    return _convert(unpack_trace, file, out, "unpacked", json)


def _convert(function: object, source: Path, out: Path, done: str, json: str | None) -> int:
    from trainwitness.trace.reader import Trace

    assert callable(function)
    output = Output(json)
    with output.progress("checking", Trace.open(source).steps) as advance:
        function(source, out, advance)
    output.say(f"{done} {source} into {out}")
    output.result(done, {"source": str(source), "out": str(out)})
    return 0

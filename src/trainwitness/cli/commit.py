"""`trainwitness commit` and `row`: fix the rows of a data set before training; take out one row."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trainwitness.cli.output import DataOption, JsonOption, Output, SetOption
from trainwitness.cli.record import task_spec

if TYPE_CHECKING:
    from trainwitness.commitments.commitment import Rows

SourceArgument = Annotated[
    str,
    typer.Argument(metavar="DATA|TASK", help="A task, a text file with one row a line, or inputs in a .npy file."),
]
LabelsOption = Annotated[Path | None, typer.Option(metavar="FILE", help="Labels of a .npy file's inputs.")]
SecretOption = Annotated[
    Path | None, typer.Option(metavar="FILE", help="The owner's secret for proofs of absence (trainwitness key).")
]


def commit(
    source: SourceArgument,
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="The commitment to write.")],
    labels: LabelsOption = None,
    secret: SecretOption = None,
    leaves: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Also write every row's hash, for verifiers whose copy differs."),
    ] = None,
    option: SetOption = None,
    data: DataOption = None,
    json: JsonOption = None,
) -> int:
    """Fix which rows a model will be trained on: a root over every byte of every input and label.

    Publish the file, or have it time-stamped, before anyone gives you a nonce. With --secret, absence of a row can
    be proved later; that takes about 120 bytes of memory a row, all else the same memory whatever the size.

    Example: trainwitness commit lenet-digits --out data.commit
    """
    from trainwitness.commitments.commitment import commit as commit_rows
    from trainwitness.commitments.commitment import write_commitment

    output = Output(json)
    rows = source_rows(source, option, labels, data)
    key = None if secret is None else read_secret(secret)
    with output.progress(f"hashing {rows.name}", rows.count) as advance:
        made = write_commitment(out, lambda file: commit_rows(rows, key=key, leaves=file, on_rows=advance), leaves)
    output.say(f"{made.data.rows:,} rows of {made.data.name} ({made.data.row_schema}), data root {made.data.root}")
    if made.sorted is not None:
        output.say(f"sorted root {made.sorted.root}")
    output.say(f"commitment: {out}, digest {made.digest}")
    output.result("commit", {**made.model_dump(), "digest": made.digest, "out": str(out)})
    return 0


def row(
    source: SourceArgument,
    index: Annotated[int, typer.Option("--index", min=0, help="Which row.")],
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="Where to write the row's canonical bytes.")],
    test: Annotated[bool, typer.Option("--test", help="A row of the task's test data instead.")] = False,
    labels: LabelsOption = None,
    option: SetOption = None,
    data: DataOption = None,
    json: JsonOption = None,
) -> int:
    """Write the canonical bytes of one row, for proofs about it.

    Example: trainwitness row lenet-digits --index 3 --out row.bin
    """
    import hashlib
    import itertools

    from trainwitness.core.errors import UsageError
    from trainwitness.core.files import write_new

    output = Output(json)
    rows = _test_rows(source, option, data) if test else source_rows(source, option, labels, data)
    content = next(itertools.islice(rows.iterate(), index, None), None)
    if content is None:
        raise UsageError(f"row {index}: {rows.name} has fewer rows")
    write_new(out, content, "writing the row")
    output.say(f"row {index} of {rows.name}, {len(content)} bytes: {out}")
    output.result("row", {"index": index, "sha256": hashlib.sha256(content).hexdigest(), "out": str(out)})
    return 0


def source_rows(source: str, option: list[str] | None, labels: Path | None, data: Path | None) -> Rows:
    """The rows a command line names."""
    from trainwitness.commitments.sources import open_rows

    return open_rows(task_spec(source, option), labels=labels, data=data)


def _test_rows(source: str, option: list[str] | None, data: Path | None) -> Rows:
    from trainwitness.commitments.sources import rows_of
    from trainwitness.core.errors import UsageError
    from trainwitness.tasks.registry import build_task

    task = build_task(task_spec(source, option), data=data)
    if task.test is None:
        raise UsageError(f"{source} has no test data")
    return rows_of(task.test)


def read_secret(path: Path) -> bytes:
    """The owner's secret: 32 bytes in hexadecimal, in a file that others cannot read."""
    from trainwitness.commitments.keyed import KEY_BYTES
    from trainwitness.core.errors import EvidenceDamaged
    from trainwitness.core.files import read_private

    content = read_private(path)
    try:
        key = bytes.fromhex(content.decode("ascii").strip())
    except ValueError as error:
        raise EvidenceDamaged(f"{path}: not hexadecimal", hint="make one: trainwitness key --kind secret") from error
    if len(key) != KEY_BYTES:
        raise EvidenceDamaged(f"{path}: {len(key)} bytes, a secret has {KEY_BYTES}")
    return key

"""What can be committed to: a task's training rows, arrays on disk, or the lines of a text file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from trainwitness.commitments.commitment import Rows
from trainwitness.core.canonical import DTYPES, row_bytes
from trainwitness.core.errors import DataDamaged, DataMissing, UsageError
from trainwitness.tasks.dataset import Array, Dataset

if TYPE_CHECKING:
    from trainwitness.tasks.task import TaskSpec

MAX_LINE_BYTES = 1 << 26


def rows_of(dataset: Dataset) -> Rows:
    """The rows of a Dataset."""
    return Rows(dataset.name, dataset.schema, dataset.rows, len(dataset), lambda: dataset.blocks(b"\x00"))


def open_rows(spec: TaskSpec, *, labels: Path | None = None, data: Path | None = None) -> Rows:
    """Rows by a task's name, or by the path of a file: `INPUTS.npy` with `labels`, or text with one row a line.

    Arrays are mapped, not read: memory stays constant however large they are.
    """
    path = Path(spec.name)
    if path.suffix == ".npy":
        if labels is None:
            raise UsageError(f"{path}: inputs without labels", hint="add --labels LABELS.npy")
        return rows_of(Dataset(path.stem, _array(path), _array(labels)))
    if labels is not None:
        raise UsageError("labels go with inputs in a .npy file")
    if path.is_file():
        return Rows(path.name, "utf8[n]", lambda: _lines(path))
    if ":" not in spec.name and (path.suffix or "/" in spec.name):
        raise DataMissing(f"{path}: no such file", hint="name a .npy file, a text file or a task")
    from trainwitness.tasks.registry import build_task

    return rows_of(build_task(spec, data=data).dataset)


def _array(path: Path) -> Array:
    try:
        array: Array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise DataDamaged(f"{path}: cannot be read as an array: {error}") from error
    if array.ndim == 0 or array.dtype.name not in DTYPES:
        raise DataDamaged(f"{path}: an array of {array.dtype} and shape {array.shape} has no canonical rows")
    return array


def _lines(path: Path) -> Iterator[bytes]:
    """One row a line, without its line feed, as text."""
    with path.open("rb") as file:
        number = 0
        while line := file.readline(MAX_LINE_BYTES):
            number += 1
            if len(line) == MAX_LINE_BYTES:
                raise DataDamaged(f"{path}: line {number} is longer than {MAX_LINE_BYTES:,} bytes")
            try:
                yield row_bytes((line.removesuffix(b"\n").decode(),))
            except UnicodeDecodeError as error:
                raise DataDamaged(f"{path}: line {number} is not UTF-8: {error}") from error

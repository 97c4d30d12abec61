"""Finding and reading the files of data sets; every failure names the files looked for."""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from trainwitness.core.errors import DataDamaged, DataMissing, UsageError
from trainwitness.tasks.dataset import Dataset

VARIABLE = "TRAINWITNESS_DATA"


@dataclass(frozen=True)
class Source:
    """A data set: `load(folder)` gives its training and test part, `available(folder)` looks without reading."""

    name: str
    load: Callable[[Path | None], tuple[Dataset, Dataset]]
    available: Callable[[Path | None], bool]


def data_folder(data: Path | None, name: str) -> Path:
    """The folder given, or the one in `TRAINWITNESS_DATA`."""
    folder = data or (Path(os.environ[VARIABLE]) if os.environ.get(VARIABLE) else None)
    if folder is None:
        raise DataMissing(
            f"data set {name!r}: no data folder was named",
            hint=f"use --data DIR or set {VARIABLE}; the digits tasks need no files",
        )
    if not folder.is_dir():
        raise DataMissing(f"data set {name!r}: {folder} is not a folder", hint="check --data")
    return folder


def find(folder: Path, name: str, candidates: Sequence[str]) -> Path:
    """The first of the candidate paths (below `folder`) that exists."""
    for candidate in candidates:
        if (folder / candidate).exists():
            return folder / candidate
    looked = "\n    ".join(candidates)
    raise DataMissing(
        f"data set {name!r} is not in {folder}; looked for\n    {looked}",
        hint="put one of these there, or name another folder with --data",
    )


def is_available(check: Callable[[Path], object], name: str, data: Path | None) -> bool:
    """Whether `check` finds its files."""
    try:
        check(data_folder(data, name))
    except (DataMissing, UsageError):
        return False
    return True


def read_bytes(path: Path, limit: int = 1 << 31) -> bytes:
    """The content of a file, gunzipped if its name ends in .gz; refuses more than `limit` bytes."""
    try:
        if path.suffix == ".gz":
            with gzip.open(path) as file:
                content = file.read(limit + 1)
        else:
            with path.open("rb") as file:
                content = file.read(limit + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise damaged(path, f"cannot be read: {error}") from error
    if len(content) > limit:
        raise damaged(path, f"holds more than {limit} bytes")
    return content


def damaged(path: Path, what: str) -> DataDamaged:
    """The error for a file that is there but wrong."""
    return DataDamaged(f"{path}: {what}", hint="fetch the file again")

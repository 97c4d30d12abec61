"""Packing a trace into one file, and back."""

from __future__ import annotations

import shutil
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

from trainwitness.core.errors import StorageError
from trainwitness.core.files import storage_errors
from trainwitness.trace.reader import Trace
from trainwitness.trace.store import Store, open_store

_EPOCH = (1980, 1, 1, 0, 0, 0)


def pack(source: Path, target: Path, progress: Callable[[int], None] | None = None) -> None:
    """Checks the trace at `source` and writes it as one file. The same trace gives the same file."""
    if target.exists():
        raise StorageError(f"{target}: already exists", hint="choose another name")
    Trace.open(source).check(progress)
    store = open_store(source)
    with storage_errors(target, "packing"), tempfile.TemporaryDirectory(dir=target.parent) as folder:
        temporary = Path(folder) / target.name
        with zipfile.ZipFile(temporary, "x", zipfile.ZIP_STORED) as archive:
            for name in sorted(store.names()):
                entry = zipfile.ZipInfo(name, _EPOCH)
                entry.external_attr = 0o644 << 16
                with store.open(name) as file, archive.open(entry, "w", force_zip64=True) as packed:
                    shutil.copyfileobj(file, packed, 1 << 20)
        temporary.rename(target)


def unpack(source: Path, target: Path, progress: Callable[[int], None] | None = None) -> None:
    """Checks the packed trace at `source` and writes it as a folder."""
    if target.exists():
        raise StorageError(f"{target}: already exists", hint="choose another folder")
    Trace.open(source).check(progress)
    with storage_errors(target, "unpacking"), tempfile.TemporaryDirectory(dir=target.parent) as folder:
        temporary = Path(folder) / target.name
        temporary.mkdir()
        _copy_files(open_store(source), temporary)
        temporary.rename(target)


def _copy_files(store: Store, folder: Path) -> None:
    for name in sorted(store.names()):  # only the names of the format: none has a separator in it
        with store.open(name) as file, (folder / name).open("xb") as unpacked:
            shutil.copyfileobj(file, unpacked, 1 << 20)

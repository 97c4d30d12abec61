"""Writing files so that a crash leaves the old one or the new one, never half of it; reading those of strangers."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from trainwitness.core.errors import EvidenceDamaged, StorageError

TEMPORARY = ".tmp"
MAX_EVIDENCE_BYTES = 1 << 24


@contextmanager
def storage_errors(path: Path, doing: str = "recording") -> Iterator[None]:
    """Turns the system's refusals into one StorageError."""
    try:
        yield
    except OSError as error:
        rest = "; what was written before opens, and resuming goes on from there" if doing == "recording" else ""
        raise StorageError(
            f"{path}: {doing} stopped: {error.strerror or error}", hint=f"make room or name another place{rest}"
        ) from error


@contextmanager
def whole_file(path: Path, mode: int = 0o644) -> Iterator[BinaryIO]:
    """A file under a temporary name, which gets its own when the block ends well and is on disk."""
    temporary = path.with_name(path.name + TEMPORARY)
    try:
        with suppress(FileNotFoundError):
            temporary.unlink()  # of a process that was killed
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.rename(path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def write_whole(path: Path, content: bytes, mode: int = 0o644) -> None:
    """Writes a small file at once."""
    with whole_file(path, mode) as file:
        file.write(content)


def sync_folder(folder: Path) -> None:
    """Makes a rename in `folder` survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_new(path: Path, content: bytes, doing: str, mode: int = 0o644) -> None:
    """Writes a small file where none is: evidence is never overwritten."""
    refuse_existing(path)
    with storage_errors(path, doing):
        write_whole(path, content, mode)


def refuse_existing(path: Path) -> None:
    """Raises if something is at `path` already."""
    if path.exists() or path.is_symlink():
        raise StorageError(f"{path}: is there already", hint="choose another place; evidence is not overwritten")


def read_evidence(path: Path) -> bytes:
    """A small file that someone else wrote: a regular file of at most 16 MiB."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise EvidenceDamaged(f"{path}: not a regular file")
            content = file.read(MAX_EVIDENCE_BYTES + 1)
    except OSError as error:
        raise EvidenceDamaged(f"{path}: cannot be read: {error.strerror}", hint="is the name right?") from error
    if len(content) > MAX_EVIDENCE_BYTES:
        raise EvidenceDamaged(f"{path}: larger than {MAX_EVIDENCE_BYTES:,} bytes; no evidence is")
    return content


def read_private(path: Path) -> bytes:
    """A key or secret, which nobody but its owner may be able to read."""
    content = read_evidence(path)
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & 0o077:
        raise EvidenceDamaged(
            f"{path}: others can read or change it (mode {mode:03o})",
            hint=f"it may be known by now; chmod 600 {path}",
        )
    return content

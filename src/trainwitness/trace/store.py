"""Where a trace's files lie: a folder, or one packed file. Both are untrusted."""

from __future__ import annotations

import contextlib
import io
import os
import stat
import struct
import zipfile
from pathlib import Path
from typing import BinaryIO, Protocol

from trainwitness.core.errors import StorageError, TraceDamaged
from trainwitness.trace.format import LOCK, MAX_JSON_BYTES, TEMPORARY, known_name


class Store(Protocol):
    """Read access to the files of a trace, by their plain names."""

    def names(self) -> set[str]: ...

    def open(self, name: str) -> BinaryIO: ...


def open_store(path: Path) -> Store:
    """The store at `path`: a folder or a packed trace."""
    if path.is_dir():
        return FolderStore(path)
    if path.is_file():
        return PackedStore(path)
    raise StorageError(f"{path}: no such trace", hint="name a trace folder or a packed trace")


def read_all(store: Store, name: str) -> bytes:
    """A whole (JSON) file."""
    with store.open(name) as file:
        size = file.seek(0, os.SEEK_END)
        if size > MAX_JSON_BYTES:
            raise TraceDamaged(f"{name}: {size} bytes, at most {MAX_JSON_BYTES} are read")
        file.seek(0)
        return file.read(size)


class FolderStore:
    """A folder: no subfolders, no links, no unknown names."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def names(self) -> set[str]:
        found = set()
        for entry in os.scandir(self.folder):
            if entry.name == LOCK or entry.name.endswith(TEMPORARY):
                continue  # of a recorder at work or killed; never read
            if not known_name(entry.name):
                raise TraceDamaged(
                    f"{self.folder}: {entry.name!r} does not belong in a trace", hint="is this a trace folder?"
                )
            found.add(entry.name)
        return found

    def open(self, name: str) -> BinaryIO:
        path = self.folder / name
        try:
            # No link leads out of the folder, and a pipe does not keep us waiting.
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            raise TraceDamaged(f"{path}: cannot be opened: {error.strerror}") from error
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise TraceDamaged(f"{path}: not a regular file")
        return os.fdopen(descriptor, "rb")


class PackedStore:
    """A zip archive of stored (uncompressed) files. The archive only says where they lie; their digests judge."""

    _LOCAL = struct.Struct("<4s22xHH")

    def __init__(self, path: Path) -> None:
        self.path = path
        self._size = path.stat().st_size
        self._entries: dict[str, tuple[int, int]] = {}
        try:
            with zipfile.ZipFile(path) as archive:
                entries = archive.infolist()
        except (zipfile.BadZipFile, NotImplementedError, ValueError, EOFError, OSError, struct.error) as error:
            raise TraceDamaged(f"{path}: not a packed trace: {error}") from error
        with path.open("rb") as file:
            for entry in entries:
                self._add(file, entry)

    def _add(self, file: BinaryIO, entry: zipfile.ZipInfo) -> None:
        name = entry.filename
        if not known_name(name) or name in self._entries or entry.header_offset < 0:
            raise TraceDamaged(f"{self.path}: entry {name!r} does not belong in a trace")
        if entry.compress_type != zipfile.ZIP_STORED or entry.compress_size != entry.file_size:
            raise TraceDamaged(f"{self.path}: entry {name!r} is compressed; packed traces are stored")
        file.seek(min(entry.header_offset, self._size))
        local = file.read(self._LOCAL.size)
        if len(local) < self._LOCAL.size or local[:4] != b"PK\x03\x04":
            raise TraceDamaged(f"{self.path}, offset {entry.header_offset}: no entry {name!r} here")
        _, name_size, extra_size = self._LOCAL.unpack(local)
        start = entry.header_offset + self._LOCAL.size + name_size + extra_size
        if start + entry.file_size > self._size:
            raise TraceDamaged(f"{self.path}: entry {name!r} passes the end of the file")
        self._entries[name] = (start, entry.file_size)

    def names(self) -> set[str]:
        return set(self._entries)

    def open(self, name: str) -> BinaryIO:
        if name not in self._entries:
            raise TraceDamaged(f"{self.path}: no {name} in this packed trace")
        start, size = self._entries[name]
        return io.BufferedReader(_Slice(self.path, start, size))


class _Slice(io.RawIOBase):
    """Bytes start..start+size of a file, as a file."""

    def __init__(self, path: Path, start: int, size: int) -> None:
        self._file, self._start, self._size, self._at = path.open("rb"), start, size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._at = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence]
        return self._at

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        count = max(0, min(len(buffer), self._size - self._at))
        self._file.seek(self._start + self._at)
        done = self._file.readinto(buffer[:count])
        self._at += done
        return int(done)

    def close(self) -> None:
        with contextlib.suppress(AttributeError):
            self._file.close()
        super().close()

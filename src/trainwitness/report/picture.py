"""Images as PNG, without an imaging library: side by side in a file, or inside a page."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from trainwitness.core.errors import StorageError

Pixels = npt.NDArray[np.uint8]


def pixels_of(image: npt.NDArray[np.float64]) -> Pixels:
    """Numbers in 0..1 as pixels."""
    return np.rint(np.clip(image, 0, 1) * 255).astype(np.uint8)


def side_by_side(lines: Sequence[Sequence[Pixels]], *, enlarge: int = 3, gap: int = 2) -> Pixels:
    """Lines of images [channels, height, width] as one image [height, width, 1 or 3], on white."""
    channels, height, width = lines[0][0].shape
    cell = (height + gap, width + gap)
    whole = np.full((len(lines) * cell[0] + gap, max(map(len, lines)) * cell[1] + gap, channels), 255, np.uint8)
    for i, line in enumerate(lines):
        for j, image in enumerate(line):
            top, left = gap + i * cell[0], gap + j * cell[1]
            whole[top : top + height, left : left + width] = image.transpose(1, 2, 0)
    return whole.repeat(enlarge, 0).repeat(enlarge, 1)


def png(image: Pixels) -> bytes:
    """An image [height, width, 1 or 3] as a file (PNG specification: grey or RGB, 8 bits, no filter)."""
    height, width, channels = image.shape
    header = struct.pack(">IIBBBBB", width, height, 8, {1: 0, 3: 2}[channels], 0, 0, 0)
    lines = np.hstack([np.zeros((height, 1), np.uint8), image.reshape(height, -1)])
    parts = [_chunk(b"IHDR", header), _chunk(b"IDAT", zlib.compress(lines.tobytes(), 9)), _chunk(b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def write_png(path: Path, image: Pixels) -> None:
    """Writes an image [height, width, 1 or 3]."""
    try:
        path.write_bytes(png(image))
    except OSError as error:
        raise StorageError(f"{path}: cannot be written: {error.strerror}") from error


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

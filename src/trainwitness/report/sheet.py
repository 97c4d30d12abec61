"""Small pictures as one PNG sheet, with nothing but zlib."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from trainwitness.core.errors import StorageError

Image = npt.NDArray[np.float64]
"""[channels, height, width] in 0..1, with one or three channels."""
ZOOM, GAP = 4, 4


def write_sheet(path: Path, rows: Sequence[Sequence[Image]]) -> None:
    """Writes rows of equally large images (true ones above restored ones, say), each pixel four wide."""
    lines = [np.concatenate([_framed(image) for image in row], 1) for row in rows if len(row)]
    width = max(line.shape[1] for line in lines)
    sheet = np.concatenate([np.pad(line, ((0, 0), (0, width - line.shape[1]), (0, 0)), "maximum") for line in lines])
    try:
        path.write_bytes(png(sheet))
    except OSError as error:
        raise StorageError(f"{path}: cannot be written: {error.strerror}") from error


def png(pixels: npt.NDArray[np.uint8]) -> bytes:
    """An RGB image [height, width, 3] as PNG (ISO 15948): header, one compressed stream of unfiltered lines, end."""
    height, width, _ = pixels.shape
    lines = np.zeros((height, 1 + 3 * width), np.uint8)
    lines[:, 1:] = pixels.reshape(height, -1)
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(lines.tobytes(), 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, content) for kind, content in parts)


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def _framed(image: Image) -> npt.NDArray[np.uint8]:
    colour = np.repeat(image, 3, 0) if len(image) == 1 else image
    pixels = np.rint(np.clip(colour, 0, 1) * 255).astype(np.uint8).transpose(1, 2, 0)
    large = pixels.repeat(ZOOM, 0).repeat(ZOOM, 1)
    return np.pad(large, ((GAP, GAP), (GAP, GAP), (0, 0)), constant_values=255)

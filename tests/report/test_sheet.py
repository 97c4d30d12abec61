"""Pictures are PNG files that any reader opens; here one of our own reads them back."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import numpy as np
import pytest

from trainwitness.core.errors import StorageError
from trainwitness.report.sheet import GAP, ZOOM, png, write_sheet


def read_png(content: bytes) -> np.ndarray:
    assert content[:8] == b"\x89PNG\r\n\x1a\n"
    at, chunks = 8, {}
    while at < len(content):
        (size,) = struct.unpack_from(">I", content, at)
        kind, body = content[at + 4 : at + 8], content[at + 8 : at + 8 + size]
        assert struct.unpack_from(">I", content, at + 8 + size)[0] == zlib.crc32(kind + body)
        chunks[kind] = body
        at += 12 + size
    width, height, depth, colour, *_ = struct.unpack(">IIBBBBB", chunks[b"IHDR"])
    assert (depth, colour) == (8, 2)
    lines = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), np.uint8).reshape(height, 1 + 3 * width)
    assert not lines[:, 0].any()
    return lines[:, 1:].reshape(height, width, 3)


def test_pixels_come_back() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (5, 7, 3), dtype=np.uint8)
    assert np.array_equal(read_png(png(pixels)), pixels)


def test_a_sheet_of_grey_and_colour_rows(tmp_path: Path) -> None:
    grey, colour = np.full((1, 4, 4), 0.5), np.zeros((3, 4, 4))
    write_sheet(tmp_path / "s.png", [[grey, grey], [colour]])
    seen = read_png((tmp_path / "s.png").read_bytes())
    side = 4 * ZOOM + 2 * GAP
    assert seen.shape == (2 * side, 2 * side, 3)
    assert seen[GAP, GAP].tolist() == [128, 128, 128]
    assert seen[side + GAP, GAP].tolist() == [0, 0, 0]
    with pytest.raises(StorageError, match="cannot be written"):
        write_sheet(tmp_path / "no" / "s.png", [[grey]])

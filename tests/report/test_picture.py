"""Pictures are PNG files that any reader opens; here one of our own reads them back."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import numpy as np
import pytest

from trainwitness.core.errors import StorageError
from trainwitness.report.picture import pixels_of, png, side_by_side, write_png


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
    assert depth == 8
    channels = {0: 1, 2: 3}[colour]
    lines = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), np.uint8).reshape(height, 1 + channels * width)
    assert not lines[:, 0].any()
    return lines[:, 1:].reshape(height, width, channels)


@pytest.mark.parametrize("channels", [1, 3])
def test_pixels_come_back(channels: int) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (5, 7, channels), dtype=np.uint8)
    assert np.array_equal(read_png(png(pixels)), pixels)


@pytest.mark.parametrize("channels", [1, 3])
def test_pictures_are_png(channels: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    images = [rng.integers(0, 256, (channels, 5, 4), dtype=np.uint8) for _ in range(3)]
    picture = side_by_side([images[:2], images[2:]], enlarge=2, gap=1)
    write_png(tmp_path / "p.png", picture)
    read = read_png((tmp_path / "p.png").read_bytes())
    assert np.array_equal(read, picture)
    assert np.array_equal(read[2:12:2, 2:10:2], images[0].transpose(1, 2, 0))
    assert (read[:2] == 255).all()


def test_lines_of_images(tmp_path: Path) -> None:
    grey, black = pixels_of(np.full((1, 4, 4), 0.5)), pixels_of(np.full((1, 4, 4), -1.0))
    write_png(tmp_path / "s.png", side_by_side([[grey, grey], [black]], enlarge=2, gap=1))
    seen = read_png((tmp_path / "s.png").read_bytes())
    assert seen.shape == (22, 22, 1)
    assert seen[2:10, 2:10].min() == seen[2:10, 2:10].max() == 128
    assert seen[12:20, 2:10].max() == 0
    assert seen[12:20, 12:20].min() == 255  # no second image there
    with pytest.raises(StorageError, match="cannot be written"):
        write_png(tmp_path / "no" / "s.png", side_by_side([[grey]]))

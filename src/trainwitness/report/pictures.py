"""Pixels to PNG, so that a page carries its pictures in itself."""

from __future__ import annotations

import base64
import binascii
import struct
import zlib
from collections.abc import Mapping
from typing import Any

from trainwitness.report.blocks import Picture

MAX_PIXELS = 1 << 16


def png_uri(picture: Picture) -> str:
    """The picture as a data URI (PNG, 8 bits, grey or RGB)."""
    line = picture.width * picture.channels
    rows = b"".join(b"\0" + picture.pixels[at : at + line] for at in range(0, line * picture.height, line))
    colour = 2 if picture.channels == 3 else 0
    header = struct.pack(">IIBBBBB", picture.width, picture.height, 8, colour, 0, 0, 0)
    content = b"\x89PNG\r\n\x1a\n" + b"".join(
        _chunk(name, data) for name, data in ((b"IHDR", header), (b"IDAT", zlib.compress(rows, 9)), (b"IEND", b""))
    )
    return "data:image/png;base64," + base64.b64encode(content).decode()


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def picture_of(example: Mapping[str, Any]) -> Picture | None:
    """The picture in an example of a result (`shape` and base64 `pixels`); None where it is none, or a wrong one."""
    shape = example.get("shape") or []
    try:
        pixels = base64.b64decode(example.get("pixels") or "", validate=True)
        channels, height, width = (1, *shape) if len(shape) == 2 else shape
    except (TypeError, ValueError, binascii.Error):
        return None
    whole = isinstance(height, int) and isinstance(width, int) and channels in (1, 3)
    if not whole or not 0 < height * width <= MAX_PIXELS or len(pixels) != height * width * channels:
        return None
    if channels == 3:  # stored plane by plane
        size = height * width
        pixels = bytes(pixels[plane * size + k] for k in range(size) for plane in range(3))
    return Picture(height, width, channels, pixels)

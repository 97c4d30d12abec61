"""Compressing a State as its difference to the State before. docs/trace-format.md, section 5.

Consecutive States of a training run differ in the low bits of each float. Taking the floats as integers, the
differences are small; zigzag makes small negative ones small too; byte planes put the (mostly zero) upper bytes
side by side, where zstd finds them. Blocks keep the working memory constant.
"""

from __future__ import annotations

import io

import numpy as np
import numpy.typing as npt
import zstandard

from trainwitness.core.errors import TraceDamaged
from trainwitness.trace.layout import WIDTHS, Buffer, Layout, Words

BLOCK = 1 << 18
"""Words per block of byte planes."""
LEVEL = 1
"""Higher levels cost time and gain nothing on noise-like data."""

_MAX_WINDOW = 1 << 23
_MAX_RATIO = 1 << 16
"""zstd cannot shrink by more than 128 KiB / 3 bytes, so a header that claims more than this lies."""


def encode(new: Buffer, old: Buffer) -> bytes:
    """`new` as its difference to `old`; tensors that `old` lacks are taken as zero there."""
    old = old.rearranged(new.layout)
    compress = zstandard.ZstdCompressor(level=LEVEL, write_checksum=False).compressobj(size=new.layout.nbytes)
    pieces = []
    for width in WIDTHS:
        for start in range(0, new.layout.counts[width], BLOCK):
            block = slice(start, start + BLOCK)
            planes = _planes(_zigzag(new.words[width][block] - old.words[width][block]))
            pieces.append(compress.compress(planes.data.cast("B")))
    pieces.append(compress.flush())
    return b"".join(pieces)


def decode(data: bytes, layout: Layout, old: Buffer, where: str) -> Buffer:
    """The State that `encode` was given; allocates only what `data` can really hold."""
    reader = open_frame(data, layout.nbytes, where)
    old, new = old.rearranged(layout), Buffer(layout)
    try:
        for width in WIDTHS:
            words, previous = new.words[width], old.words[width]
            for start in range(0, layout.counts[width], BLOCK):
                count = min(BLOCK, layout.counts[width] - start)
                planes = np.frombuffer(_read(reader, count * width, where), np.uint8).reshape(width, count)
                delta = _unzigzag(np.ascontiguousarray(planes.T).view(f"<u{width}").reshape(-1))
                np.add(previous[start : start + count], delta, out=words[start : start + count])
        if reader.read(1):
            raise TraceDamaged(f"{where}: more data than the State's tensors hold")
    except zstandard.ZstdError as error:
        raise TraceDamaged(f"{where}: {error}") from error
    return new


def open_frame(data: bytes, size: int, where: str) -> zstandard.ZstdDecompressionReader:
    """A reader of one zstd frame that must hold exactly `size` bytes."""
    try:
        claimed = zstandard.get_frame_parameters(data).content_size
    except zstandard.ZstdError as error:
        raise TraceDamaged(f"{where}: {error}") from error
    if claimed != size or size > len(data) * _MAX_RATIO:
        raise TraceDamaged(f"{where}: {len(data)} bytes claim to hold {claimed}, expected {size}")
    decompressor = zstandard.ZstdDecompressor(max_window_size=_MAX_WINDOW)
    return decompressor.stream_reader(io.BytesIO(data), read_across_frames=True)


def _read(reader: zstandard.ZstdDecompressionReader, size: int, where: str) -> bytes:
    data = reader.read(size)
    if len(data) != size:
        raise TraceDamaged(f"{where}: the compressed data ends too early")
    return data


def _zigzag(delta: Words) -> Words:
    """0, -1, 1, -2, ... -> 0, 1, 2, 3, ... on the two's complement reading of the words."""
    sign = delta >> (8 * delta.itemsize - 1)
    np.negative(sign, out=sign)  # all ones where negative
    delta <<= 1
    delta ^= sign
    return delta


def _unzigzag(words: Words) -> Words:
    sign = words & 1
    np.negative(sign, out=sign)
    return (words >> 1) ^ sign


def _planes(words: Words) -> npt.NDArray[np.uint8]:
    """All lowest bytes, then all second bytes, and so on."""
    return np.ascontiguousarray(words.view(np.uint8).reshape(-1, words.itemsize).T)

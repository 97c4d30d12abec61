"""Compressing a State as its difference to the State before. docs/trace-format.md, section 5.

Consecutive States of a training run differ in the low bits of each float. Taking the floats as integers, the
differences are small; zigzag makes small negative ones small too; byte planes put the (mostly zero) upper bytes
side by side, where zstd finds them. Blocks keep the working memory constant. With momentum the parameters follow from
the momentum buffers up to rounding, so the difference is taken to that prediction.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
import zstandard

from trainwitness.core.errors import TraceDamaged
from trainwitness.trace.format import MAX_JSON_BYTES
from trainwitness.trace.layout import WIDTHS, Buffer, Layout, Words

BLOCK = 1 << 17
"""Words per block of byte planes."""
_PARAMETERS = zstandard.ZstdCompressionParameters.from_level(1, window_log=17, hash_log=6, min_match=7)
"""Noise has no matches worth finding: a tiny search table is both faster and smaller than zstd's own levels."""

_MOMENTUM = "/momentum_buffer"
_PREDICTED_FROM = np.float32(1e-20)
_MAX_WINDOW = 1 << 23
_MAX_RATIO = 1 << 16
"""zstd cannot shrink by more than 128 KiB / 3 bytes, so a header that claims more than this lies."""


class Encoder:
    """Encodes States one after the other; keeps its working memory (a few blocks) between them."""

    def __init__(self) -> None:
        self._zstd = zstandard.ZstdCompressor(compression_params=_PARAMETERS)
        self._scratch = np.empty((3, 8 * BLOCK), np.uint8)

    def encode(self, new: Buffer, old: Buffer) -> list[bytes]:
        """`new` as its difference to `old`, in pieces; tensors that `old` lacks are taken as zero there."""
        old = old.rearranged(new.layout)
        compress = self._zstd.compressobj(size=new.layout.nbytes)
        pieces = []
        for width in WIDTHS:
            for start in range(0, new.layout.counts[width], BLOCK):
                block = slice(start, start + BLOCK)
                planes = self._planes(new.words[width][block], old.words[width][block])
                pieces.append(compress.compress(planes))
        pieces.append(compress.flush())
        return pieces

    def _planes(self, new: Words, old: Words) -> memoryview:
        """Zigzag of the difference, lowest bytes first. Zigzag: 0, -1, 1, -2, ... -> 0, 1, 2, 3, ..."""
        width, size = new.itemsize, new.nbytes
        delta, sign = (memory[:size].view(new.dtype) for memory in self._scratch[:2])
        planes = self._scratch[2, :size].reshape(width, len(new))
        np.subtract(new, old, out=delta)
        signed = f"<i{width}"
        np.right_shift(delta.view(signed), 8 * width - 1, out=sign.view(signed))  # all ones where negative
        np.left_shift(delta, 1, out=delta)
        np.bitwise_xor(delta, sign, out=delta)
        for number, plane in enumerate(planes):
            np.right_shift(delta, 8 * number, out=plane, casting="unsafe")
        return planes.reshape(-1).data


def encode(new: Buffer, old: Buffer) -> bytes:
    """One State as its difference to another."""
    return b"".join(Encoder().encode(new, old))


def decode(data: bytes, layout: Layout, old: Buffer, where: str, *, rate: float | None = None) -> Buffer:
    """The State that `encode` was given; allocates only what `data` can really hold.

    `rate` is the learning rate by which the encoder predicted parameters from momentum, if it did.
    """
    content = np.frombuffer(decompress(data, layout.nbytes, where), np.uint8)
    old, new, at = old.rearranged(layout), Buffer(layout), 0
    for width in WIDTHS:
        words, previous = new.words[width], old.words[width]
        for start in range(0, layout.counts[width], BLOCK):
            count = min(BLOCK, layout.counts[width] - start)
            planes = content[at : at + count * width].reshape(width, count)
            delta = words[start : start + count]
            delta[:] = planes[-1]
            for plane in planes[-2::-1]:
                delta <<= 8
                delta |= plane
            _unzigzag(delta)
            delta += previous[start : start + count]
            at += count * width
    if rate is not None:
        for name, prediction in predictions(new, old, rate):
            words, was = (_words(buffer.tensors[name]) for buffer in (new, old))
            words += prediction - was  # the difference was taken to the prediction
    return new


def predict(new: Buffer, old: Buffer, rate: float) -> None:
    """Overwrites the parameters in `old` with what momentum SGD makes of them, as reference for `encode`."""
    for name, prediction in predictions(new, old, rate):
        _words(old.tensors[name])[:] = prediction


def predictions(new: Buffer, old: Buffer, rate: float) -> Iterator[tuple[str, Words]]:
    """p - rate * v for every float32 parameter p (old) with a momentum buffer v (new), as words.

    The product and the difference are each rounded to float32. Where the result is undefined or below 1e-20 the old
    value is taken, since the bits of those are not the same on every machine.
    """
    for name, momentum in new.tensors.items():
        if name.endswith(_MOMENTUM) and momentum.dtype == torch.float32:
            parameter = "param/" + name.removeprefix("optim/").removesuffix(_MOMENTUM)
            before = old.tensors.get(parameter)
            if before is not None and (before.dtype, before.shape) == (momentum.dtype, momentum.shape):
                p, v = before.reshape(-1).numpy(), momentum.reshape(-1).numpy()
                with np.errstate(all="ignore"):
                    moved = p - v * np.float32(rate)
                    kept = np.abs(moved) >= _PREDICTED_FROM
                yield parameter, np.where(kept, moved, p).view("<u4")


def _words(tensor: torch.Tensor) -> Words:
    words: Words = tensor.reshape(-1).numpy().view("<u4")
    return words


def decompress(data: bytes, size: int | None, where: str) -> bytes:
    """The content of exactly one zstd frame, of `size` bytes (None: whatever it states, within the JSON limit)."""
    try:
        claimed = zstandard.get_frame_parameters(data).content_size
        if size is None:
            size = min(claimed, MAX_JSON_BYTES)
        if claimed != size or size > len(data) * _MAX_RATIO:
            raise TraceDamaged(f"{where}: {len(data)} bytes claim to hold {claimed}, expected {size}")
        content = zstandard.ZstdDecompressor(max_window_size=_MAX_WINDOW).decompress(data, allow_extra_data=False)
    except zstandard.ZstdError as error:
        raise TraceDamaged(f"{where}: {error}") from error
    if len(content) != size:
        raise TraceDamaged(f"{where}: {len(content)} bytes, expected {size}")
    return content


def _unzigzag(words: Words) -> None:
    sign = words & 1
    np.negative(sign, out=sign)
    words >>= 1
    words ^= sign

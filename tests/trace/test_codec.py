"""Compressing States: exact for every dtype and shape, and deaf to lies about size."""

from __future__ import annotations

import struct
import tracemalloc

import numpy as np
import pytest
import torch
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from trainwitness import Stepper, TaskSpec, build_task
from trainwitness.core.canonical import DTYPES
from trainwitness.core.errors import TraceDamaged
from trainwitness.trace import codec
from trainwitness.trace.codec import decode, encode
from trainwitness.trace.layout import EMPTY, Buffer, Layout

SHAPES = st.lists(st.integers(0, 5), max_size=3).map(tuple)
TABLES = st.dictionaries(
    st.text(min_size=1, max_size=5), st.tuples(st.sampled_from(sorted(DTYPES)), SHAPES), max_size=5
)


def random_buffer(table: dict[str, tuple[str, tuple[int, ...]]], seed: int) -> Buffer:
    tensors = {name: torch.zeros(shape, dtype=DTYPES[dtype]) for name, (dtype, shape) in table.items()}
    buffer, rng = Buffer(Layout.of(tensors)), np.random.default_rng(seed)
    for words in buffer.words.values():
        words[:] = rng.integers(0, 2 ** (8 * words.itemsize), len(words), dtype=words.dtype)
    return buffer


def same(one: Buffer, other: Buffer) -> bool:
    return one.state().digest() == other.state().digest()


@given(TABLES, TABLES, st.integers(0, 10))
def test_any_state_comes_back_bit_for_bit(old_table: dict, new_table: dict, seed: int) -> None:
    old, new = random_buffer(old_table, seed), random_buffer(new_table, seed + 1)
    assert same(decode(encode(new, old), new.layout, old, "here"), new)
    assert same(decode(encode(new, EMPTY), new.layout, EMPTY, "here"), new)


def test_blocks_join(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codec, "BLOCK", 7)
    table = {"a": ("float32", (4, 5)), "b": ("int64", (9,)), "c": ("bool", (8,))}
    old, new = random_buffer(table, 0), random_buffer(table, 1)
    assert same(decode(encode(new, old), new.layout, old, "here"), new)


def test_the_encoding_is_what_the_format_document_says() -> None:
    """By hand for one float32 tensor: difference modulo 2^32, zigzag, byte planes from the lowest."""
    old, new = Buffer.of({"w": torch.tensor([1.0, 2.0, 0.0])}), Buffer.of({"w": torch.tensor([1.5, 1.75, -0.0])})
    planes = zstandard.ZstdDecompressor().decompress(encode(new, old))
    deltas = [
        (struct.unpack("<I", struct.pack("<f", b))[0] - struct.unpack("<I", struct.pack("<f", a))[0]) % 2**32
        for a, b in ((1.0, 1.5), (2.0, 1.75), (0.0, -0.0))
    ]
    signed = [d - 2**32 if d >= 2**31 else d for d in deltas]
    zigzag = [2 * d if d >= 0 else -2 * d - 1 for d in signed]
    assert planes == bytes((z >> (8 * k)) & 255 for k in range(4) for z in zigzag)


def test_a_training_step_shrinks_to_about_a_third() -> None:
    stepper = Stepper(build_task("lenet-digits"))
    old = Buffer.of(stepper.live.tensors())
    stepper.run(stepper.task.schedule.batch(0))
    new = Buffer.of(stepper.live.tensors())
    assert len(encode(new, old)) < 0.36 * new.layout.nbytes


@pytest.mark.parametrize("claimed", [3, 1 << 20, 1 << 40])
def test_a_lie_about_the_size_allocates_nothing(claimed: int) -> None:
    layout = Layout.of({"w": torch.empty(claimed, dtype=torch.uint8, device="meta")})
    honest = zstandard.ZstdCompressor().compress(b"\0" * 5)
    tracemalloc.start()
    with pytest.raises(TraceDamaged, match="claim to hold"):
        decode(honest, layout, EMPTY, "here")
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()


def forged_frame(size: int) -> bytes:
    """A zstd frame whose header claims `size` bytes over an empty body."""
    return struct.pack("<IBQ", 0xFD2FB528, 0b11100000, size) + b"\x01\x00\x00"


def test_a_frame_header_that_claims_terabytes_allocates_nothing() -> None:
    layout = Layout.of({"w": torch.empty(1 << 40, dtype=torch.uint8, device="meta")})
    tracemalloc.start()
    with pytest.raises(TraceDamaged, match="claim to hold"):
        decode(forged_frame(1 << 40), layout, EMPTY, "here")
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()


@settings(max_examples=200)
@given(st.binary(max_size=80))
def test_arbitrary_bytes_are_refused(data: bytes) -> None:
    layout = Layout.of({"w": torch.zeros(4)})
    with pytest.raises(TraceDamaged):
        decode(data, layout, EMPTY, "here")


def test_trailing_data_is_refused() -> None:
    buffer = Buffer.of({"w": torch.zeros(4)})
    data = encode(buffer, EMPTY)
    for tail in (b"\0", b"junk", data):
        with pytest.raises(TraceDamaged):
            decode(data + tail, buffer.layout, EMPTY, "here")


@pytest.mark.parametrize(
    "table",
    [
        [("w", "float32", [1 << 62])],
        [("w", "float32", [1 << 31, 1 << 31])],
        [("w", "float32", [-1])],
        [("w", "float32", [0, 10**30])],
        [("w", "float32", [2**63, 0])],
        [("w", "object", [1])],
        [("w", "float32", [1] * 65)],
        [("b", "float32", [1]), ("a", "float32", [1])],
        [("a", "float32", [1]), ("a", "float32", [1])],
    ],
)
def test_an_impossible_table_is_refused(table: list[tuple[str, str, list[int]]]) -> None:
    with pytest.raises(TraceDamaged, match="here"):
        Layout.from_table(table, "here")


@given(st.lists(st.floats(width=32, allow_nan=True, allow_infinity=True), min_size=1, max_size=9), st.integers(0, 99))
def test_prediction_from_momentum_is_exact_for_every_float(values: list[float], seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    shape = len(values)
    tensors = [
        {"param/w": torch.tensor(values), "optim/w/momentum_buffer": torch.randn(shape, generator=generator)},
        {"param/w": torch.randn(shape, generator=generator), "optim/w/momentum_buffer": torch.tensor(values)},
    ]
    for old_tensors, new_tensors in (tensors, tensors[::-1]):
        old, new = Buffer.of(old_tensors), Buffer.of(new_tensors)
        reference = Buffer.of(old_tensors)
        codec.predict(new, reference, 0.01)
        assert same(decode(encode(new, reference), new.layout, old, "here", rate=0.01), new)


def test_momentum_leaves_nothing_to_store_of_the_parameters() -> None:
    stepper = Stepper(build_task(TaskSpec(name="lenet-digits", options={"momentum": 0.9})))
    buffers = []
    for step in range(3):
        stepper.run(stepper.task.schedule.batch(step))
        buffers.append(Buffer.of(stepper.live.tensors()))
    plain = len(encode(buffers[2], buffers[1]))
    codec.predict(buffers[2], buffers[1], 0.01)
    assert len(encode(buffers[2], buffers[1])) < 0.80 * plain

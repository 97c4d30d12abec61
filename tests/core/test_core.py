"""State, canonical bytes and seeds."""

from __future__ import annotations

import hashlib
import struct

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from trainwitness import State
from trainwitness.core.canonical import DTYPES, RowReader, array_header, row_bytes
from trainwitness.core.result import finite
from trainwitness.core.seeds import derive, permutation, random_bits, uniform


def test_state_digest_is_what_the_format_document_says() -> None:
    tensor = torch.tensor([[1.0, -2.0]])
    by_hand = b"trainwitness/state/v1\0" + struct.pack("<I", 7) + b"param/w"
    by_hand += struct.pack("<B7sBQQ", 7, b"float32", 2, 1, 2) + struct.pack("<2f", 1.0, -2.0)
    assert State({"param/w": tensor}).digest() == hashlib.sha256(by_hand).digest()


def test_state_digest_does_not_depend_on_the_order_of_insertion() -> None:
    a, b = torch.zeros(2), torch.ones(3)
    assert State({"param/a": a, "param/b": b}).digest() == State({"param/b": b, "param/a": a}).digest()


@pytest.mark.parametrize(
    "other",
    [
        {"param/v": torch.zeros(4)},
        {"param/w": torch.zeros(2, 2)},
        {"param/w": torch.zeros(4, dtype=torch.float64)},
        {"param/w": torch.tensor([0.0, 0.0, 0.0, -0.0])},
        {"param/w": torch.zeros(4), "buffer/b": torch.zeros(0)},
    ],
)
def test_state_digest_covers_names_shapes_types_and_every_bit(other: dict[str, torch.Tensor]) -> None:
    assert State(other).digest() != State({"param/w": torch.zeros(4)}).digest()


@pytest.mark.parametrize("name", sorted(DTYPES))
def test_every_dtype_has_canonical_bytes(name: str) -> None:
    tensor = torch.tensor([[0, 1], [1, 0]]).to(DTYPES[name])
    state = State({"param/t": tensor.T})  # not contiguous: order is that of the elements, not of memory
    assert state.digest() == State({"param/t": tensor.T.contiguous()}).digest()
    assert state.nbytes == 4 * tensor.element_size()


@given(st.lists(st.integers(0, 255), min_size=6, max_size=6), st.integers(-(2**63), 2**63 - 1))
def test_rows_read_back(pixels: list[int], label: int) -> None:
    reader = RowReader([("uint8", (2, 3)), ("int64", ())])
    row = row_bytes((np.array(pixels, np.uint8).reshape(2, 3), np.int64(label)))
    image, read_label = reader.read(row)
    assert image.ravel().tolist() == pixels
    assert int(read_label) == label


@given(st.binary(max_size=60))
def test_reading_a_foreign_row_is_a_value_error(row: bytes) -> None:
    with pytest.raises(ValueError, match="field"):
        RowReader([("uint8", (2,)), ("int64", ())]).read(row)


def test_rows_of_different_content_differ() -> None:
    images = np.zeros(1, np.uint8), np.zeros((1, 1), np.uint8)
    rows = [row_bytes(fields) for fields in ([1], [1.0], [True], ["1"], [1, 1], [], images[:1], images[1:])]
    assert len(set(rows)) == len(rows)
    with pytest.raises(TypeError, match="complex"):
        row_bytes([np.zeros(1, complex)])


def test_array_header_by_hand() -> None:
    assert array_header("uint8", [2, 3]) == b"\x05uint8\x02" + struct.pack("<QQ", 2, 3)


def test_derived_seeds_are_sha256_of_json() -> None:
    digest = hashlib.sha256(b'trainwitness/seed/v1\0[7,"order",3]').digest()
    assert derive(7, "order", 3) == int.from_bytes(digest[:8], "little") >> 1


def philox_reference(key: int, count: int) -> list[int]:
    """Philox-4x64-10 (Salmon et al. 2011) in plain Python; numpy increments the counter before each block."""
    mask, out = 2**64 - 1, []
    for block in range(1, -(-count // 4) + 1):
        c, k = [block, 0, 0, 0], [key & mask, key >> 64]
        for _ in range(10):
            p0, p1 = c[0] * 0xD2E7470EE14C6C93, c[2] * 0xCA5A826395121157
            c = [(p1 >> 64) ^ c[1] ^ k[0], p1 & mask, (p0 >> 64) ^ c[3] ^ k[1], p0 & mask]
            k = [(k[0] + 0x9E3779B97F4A7C15) & mask, (k[1] + 0xBB67AE8584CAA73B) & mask]
        out += c
    return out[:count]


@given(st.integers(0, 2**63 - 1))
def test_random_bits_are_philox(seed: int) -> None:
    assert random_bits(seed, 9).tolist() == philox_reference(seed, 9)


def test_permutations_and_uniforms() -> None:
    assert sorted(permutation(3, 100).tolist()) == list(range(100))
    values = uniform(1, 10_000)
    assert -1 <= values.min() < -0.99
    assert 0.99 < values.max() < 1
    assert abs(values.mean()) < 0.03


def test_json_numbers_are_finite_or_null() -> None:
    assert finite({"a": [1.0, float("nan")], "b": float("inf")}) == {"a": [1.0, None], "b": None}

"""The one byte encoding of arrays under every digest. Documented in docs/trace-format.md, section 2.

An array is its dtype's name, its shape, and its elements in row-major order, little-endian:

    u8 length of the dtype name | dtype name (ASCII) | u8 dimensions | u64 size of each | elements
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt
import torch

Bytes = npt.NDArray[np.uint8]

DTYPES: dict[str, torch.dtype] = {
    "bool": torch.bool,
    "uint8": torch.uint8,
    "int8": torch.int8,
    "int16": torch.int16,
    "int32": torch.int32,
    "int64": torch.int64,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
    "float32": torch.float32,
    "float64": torch.float64,
}
DTYPE_NAMES: dict[torch.dtype, str] = {dtype: name for name, dtype in DTYPES.items()}

_BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}

if sys.byteorder != "little":  # pragma: no cover
    raise ImportError("trainwitness encodes tensors as they lie in memory and needs a little-endian machine")


def array_header(dtype: str, shape: Sequence[int]) -> bytes:
    """What precedes the elements of an array: dtype and shape."""
    name = dtype.encode("ascii")
    return struct.pack(f"<B{len(name)}sB{len(shape)}Q", len(name), name, len(shape), *shape)


def tensor_bytes(tensor: torch.Tensor) -> Bytes:
    """The elements of a CPU tensor as bytes, without a copy where it is contiguous."""
    flat = tensor.detach().contiguous().reshape(-1).view(torch.uint8)
    array: Bytes = flat.numpy()
    return array


def same_bits(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two CPU tensors have the same type, shape and bits (0.0 and -0.0 do not)."""
    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    a, b = (tensor.detach().contiguous().reshape(-1).view(_BITS[tensor.element_size()]) for tensor in (one, other))
    return torch.equal(a, b)


def row_bytes(fields: Iterable[object]) -> bytes:
    """One data row (input, label, ...): u32 number of fields, then each field as an array.

    Python numbers are int64 or float64 scalars; text is its UTF-8 bytes under the dtype name `utf8`.
    """
    encoded = [_field_bytes(field) for field in fields]
    return struct.pack("<I", len(encoded)) + b"".join(encoded)


def _field_bytes(field: object) -> bytes:
    if isinstance(field, str):
        text = field.encode()
        return array_header("utf8", [len(text)]) + text
    if isinstance(field, torch.Tensor):
        tensor = field.detach().cpu()
        if tensor.dtype not in DTYPE_NAMES or tensor.layout != torch.strided:
            raise TypeError(f"a tensor of {tensor.dtype}, {tensor.layout} has no canonical bytes")
        return array_header(DTYPE_NAMES[tensor.dtype], tensor.shape) + tensor_bytes(tensor).tobytes()
    if isinstance(field, (bool, int, float, np.ndarray, np.generic)):
        array = np.asarray(field)
        if array.dtype.name not in DTYPES:
            raise TypeError(f"an array of {array.dtype} has no canonical bytes")
        little = array.astype(array.dtype.newbyteorder("<"), copy=False)
        return array_header(array.dtype.name, array.shape) + little.tobytes()
    raise TypeError(f"a field of type {type(field).__name__} has no canonical bytes")


class RowReader:
    """Reads rows of one fixed schema (dtype and shape per field) back from their canonical bytes."""

    def __init__(self, schema: Sequence[tuple[str, tuple[int, ...]]]) -> None:
        self._schema = schema
        self._count = struct.pack("<I", len(schema))
        self._headers = [array_header(dtype, shape) for dtype, shape in schema]

    def read(self, row: bytes) -> list[npt.NDArray[np.generic]]:
        """The fields of `row`; ValueError if it is not exactly one row of this schema."""
        if not row.startswith(self._count):
            raise ValueError(f"a row must have {len(self._schema)} fields")
        fields, at = [], len(self._count)
        for header, (dtype, shape) in zip(self._headers, self._schema, strict=True):
            if row[at : at + len(header)] != header:
                raise ValueError(f"a field must be {dtype}{list(shape)}")
            at += len(header)
            count = int(np.prod(shape, dtype=np.int64))
            size = count * np.dtype(dtype).itemsize
            if len(row) < at + size:
                raise ValueError("the row ends inside a field")
            fields.append(np.frombuffer(row, np.dtype(dtype).newbyteorder("<"), count, at).reshape(shape))
            at += size
        if at != len(row):
            raise ValueError(f"{len(row) - at} bytes follow the last field")
        return fields

"""Dataset: indexed rows with one canonical byte encoding, before normalisation."""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from trainwitness.core.canonical import RowReader, array_header, row_bytes
from trainwitness.core.errors import UsageError
from trainwitness.tasks.domain import Domain, FiniteReals

Array = npt.NDArray[Any]
Prepare = Callable[[torch.Tensor, torch.dtype], torch.Tensor]


_ROWS_AT_ONCE = 256


def as_is(inputs: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Inputs that need no normalisation: floating point in the wanted precision, integers untouched."""
    return inputs.to(dtype) if inputs.is_floating_point() else inputs


@dataclass(frozen=True, eq=False)
class Dataset:
    """`inputs[i]` and `labels[i]` are row i. Digest, Domain, commitment and forgery all speak of these values.

    `prepare` turns a batch of inputs into what the model reads (pixels / 255, standardised columns).

    >>> rows = Dataset("toy", np.zeros((3, 2), np.uint8), np.array([0, 1, 0]))
    >>> len(rows), len(rows.row(0))
    (3, 41)
    """

    name: str
    inputs: Array
    labels: Array
    domain: Domain = field(default_factory=FiniteReals)
    prepare: Prepare = as_is

    def __post_init__(self) -> None:
        if len(self.inputs) != len(self.labels) or len(self.inputs) == 0:
            raise UsageError(
                f"data set {self.name!r}: {len(self.inputs)} inputs and {len(self.labels)} labels",
                hint="give one label per input, and at least one row",
            )

    def __len__(self) -> int:
        return len(self.inputs)

    def row(self, index: int) -> bytes:
        """The canonical bytes of one row: input, then label."""
        return row_bytes((self.inputs[index], self.labels[index]))

    def rows(self) -> Iterator[bytes]:
        """The canonical bytes of every row, in order."""
        for block in self.blocks():
            yield from block

    def blocks(self, prefix: bytes = b"") -> Iterator[list[bytes]]:
        """The same, many at a time and each after `prefix`."""
        # All rows share the same headers, so they lie ready in a block whose other bytes are overwritten.
        start = prefix + struct.pack("<I", 2) + array_header(self.inputs.dtype.name, self.inputs.shape[1:])
        middle = array_header(self.labels.dtype.name, self.labels.shape[1:])
        inputs, labels = (_as_bytes(array) for array in (self.inputs, self.labels))
        template = start + bytes(inputs.shape[1]) + middle + bytes(labels.shape[1])
        first, width = len(start), len(template)
        block = np.tile(np.frombuffer(template, np.uint8), (_ROWS_AT_ONCE, 1))
        for at in range(0, len(self), _ROWS_AT_ONCE):
            count = min(_ROWS_AT_ONCE, len(self) - at)
            block[:count, first : first + inputs.shape[1]] = inputs[at : at + count]
            block[:count, width - labels.shape[1] :] = labels[at : at + count]
            content = block[:count].tobytes()
            yield [content[k : k + width] for k in range(0, len(content), width)]

    def fetch(
        self, indices: Sequence[int], carried: Mapping[int, bytes] | None = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Inputs and labels of a micro-batch; `carried` replaces the rows at the given positions."""
        chosen = np.asarray(indices, np.int64)
        inputs, labels = self.inputs[chosen], self.labels[chosen]
        for position, row in (carried or {}).items():
            inputs[position], labels[position] = self.parse(row)
        return torch.from_numpy(inputs), torch.from_numpy(labels)

    def parse(self, row: bytes) -> tuple[Array, Array]:
        """A row's input and label; ValueError if the bytes are not a row of this data set's schema."""
        one_input, label = self._reader.read(row)
        return one_input, label

    @functools.cached_property
    def _reader(self) -> RowReader:
        return RowReader([(a.dtype.name, a.shape[1:]) for a in (self.inputs, self.labels)])

    @functools.cached_property
    def twins(self) -> Mapping[int, tuple[int, ...]]:
        """For every row whose content occurs more than once: the other rows that have it."""
        groups: dict[bytes, list[int]] = {}
        for index, row in enumerate(self.rows()):
            groups.setdefault(row, []).append(index)
        shared = [group for group in groups.values() if len(group) > 1]
        return {row: tuple(other for other in group if other != row) for group in shared for row in group}

    @property
    def schema(self) -> str:
        """Field types in words, for the manifest."""
        return " ".join(f"{a.dtype.name}{list(a.shape[1:])}" for a in (self.inputs, self.labels))


def _as_bytes(array: Array) -> npt.NDArray[np.uint8]:
    """Row by row, the array's elements as bytes."""
    little = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
    return little.reshape(len(array), -1).view(np.uint8)

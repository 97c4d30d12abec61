"""Layout: which tensors a State has; Buffer: a State in flat memory, one array per element width."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from trainwitness.core.canonical import DTYPE_NAMES, DTYPES
from trainwitness.core.errors import TraceDamaged
from trainwitness.core.state import State
from trainwitness.trace.format import MAX_STATE_BYTES, MAX_TENSORS, Table

WIDTHS = (8, 4, 2, 1)
Words = npt.NDArray[Any]


class TensorInfo(NamedTuple):
    """Name, dtype and shape of one tensor."""

    name: str
    dtype: str
    shape: tuple[int, ...]

    @property
    def elements(self) -> int:
        return math.prod(self.shape)

    @property
    def width(self) -> int:
        return DTYPES[self.dtype].itemsize


class Layout:
    """The tensors of a State in the order of their names' UTF-8 bytes."""

    def __init__(self, infos: list[TensorInfo]) -> None:
        self.infos = tuple(infos)
        self.sizes = {width: [i.elements * width for i in infos if i.width == width] for width in WIDTHS}
        """Bytes of each tensor, by the width of its elements."""
        self.counts = {width: sum(sizes) // width for width, sizes in self.sizes.items()}
        self.nbytes = sum(width * count for width, count in self.counts.items())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Layout) and self.infos == other.infos

    __hash__ = None  # type: ignore[assignment]

    @classmethod
    def of(cls, tensors: Mapping[str, torch.Tensor]) -> Layout:
        """The layout of live tensors."""
        return cls(
            [
                TensorInfo(name, DTYPE_NAMES[tensors[name].dtype], tuple(tensors[name].shape))
                for name in sorted(tensors, key=str.encode)
            ]
        )

    def fits(self, tensors: Mapping[str, torch.Tensor]) -> bool:
        """Whether `Layout.of(tensors)` would equal this one; quicker than making it."""
        if len(tensors) != len(self.infos):
            return False
        for info in self.infos:
            tensor = tensors.get(info.name)
            if tensor is None or tensor.shape != info.shape or DTYPE_NAMES[tensor.dtype] != info.dtype:
                return False
        return True

    @classmethod
    def from_table(cls, table: Table, where: str) -> Layout:
        """The layout a trace states; refused before anything is allocated if it cannot be honest."""
        if len(table) > MAX_TENSORS:
            raise TraceDamaged(f"{where}: {len(table)} tensors, at most {MAX_TENSORS} are read")
        infos = [TensorInfo(name, dtype, tuple(shape)) for name, dtype, shape in table]
        names = [info.name.encode("utf-8", "surrogatepass") for info in infos]
        if any(a >= b for a, b in itertools.pairwise(names)):
            raise TraceDamaged(f"{where}: tensor names are not in ascending order")
        total = 0
        for info in infos:
            if (
                info.dtype not in DTYPES
                or any(not 0 <= size <= MAX_STATE_BYTES for size in info.shape)
                or len(info.shape) > 64
            ):
                raise TraceDamaged(f"{where}: tensor {info.name!r} is {info.dtype}{list(info.shape)}")
            total += info.elements * info.width
        if total > MAX_STATE_BYTES:
            raise TraceDamaged(f"{where}: a State of {total} bytes, at most {MAX_STATE_BYTES} are read")
        return cls(infos)

    def table(self) -> Table:
        """The layout as written in a trace."""
        return [(info.name, info.dtype, list(info.shape)) for info in self.infos]


class Buffer:
    """Memory for one State: tensors of equal element width lie side by side, as unsigned words."""

    def __init__(self, layout: Layout, *, zero: bool = False) -> None:
        make = np.zeros if zero else np.empty
        self.layout = layout
        self.words: dict[int, Words] = {w: make(layout.counts[w], f"<u{w}") for w in WIDTHS}
        self.tensors = self._views()

    @classmethod
    def of(cls, tensors: Mapping[str, torch.Tensor]) -> Buffer:
        """A copy of tensors from any device."""
        buffer = cls(Layout.of(tensors))
        buffer.copy_from(tensors)
        return buffer

    def _views(self) -> dict[str, torch.Tensor]:
        pieces = {
            width: iter(torch.split(torch.from_numpy(words.view(np.uint8)), self.layout.sizes[width]))
            for width, words in self.words.items()
        }
        return {
            info.name: next(pieces[info.width]).view(DTYPES[info.dtype]).view(info.shape)
            for info in self.layout.infos
        }

    def copy_from(self, tensors: Mapping[str, torch.Tensor]) -> None:
        """Copies tensors of the same layout, from any device."""
        for name, view in self.tensors.items():
            view.copy_(tensors[name])

    def state(self) -> State:
        """The State in this memory, not a copy."""
        return State(self.tensors)

    def rearranged(self, layout: Layout) -> Buffer:
        """These values in another layout: tensors that are new or of another shape are zero."""
        if layout == self.layout:
            return self
        other = Buffer(layout, zero=True)
        for name, view in other.tensors.items():
            mine = self.tensors.get(name)
            if mine is not None and (mine.dtype, mine.shape) == (view.dtype, view.shape):
                view.copy_(mine)
        return other


EMPTY = Buffer(Layout([]))
"""What a keyframe differs from."""

"""Domain: the set of valid rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.generic]


class Domain(Protocol):
    """Says which rows are outside, and why."""

    def outside(self, inputs: Array, labels: Array) -> list[tuple[int, str]]:
        """(position, reason) for each of the given rows that is not valid; empty when all are."""
        ...

    def describe(self) -> str:
        """The rule in words."""
        ...


@dataclass(frozen=True)
class IntegerBox:
    """Integers between bounds, and a label below `classes`.

    Bounds are numbers (pixels 0..255, token ids) or one per field (a table). With v values per pixel this is the
    set Z of paper 000, section 5.1, before division by 255.
    """

    low: int | tuple[int, ...]
    high: int | tuple[int, ...]
    classes: int

    def outside(self, inputs: Array, labels: Array) -> list[tuple[int, str]]:
        bad: list[tuple[int, str]] = []
        whole = np.issubdtype(inputs.dtype, np.integer)
        values = inputs.astype(np.int64) if whole else inputs.astype(np.float64)
        below, above = values < np.asarray(self.low), values > np.asarray(self.high)
        fraction = np.zeros(values.shape, bool) if whole else values != np.rint(values)
        for position in range(len(values)):
            for name, mask in (("below", below), ("above", above), ("not an integer", fraction)):
                if mask[position].any():
                    at = np.argwhere(mask[position])[0].tolist()
                    found = values[position][tuple(at)]
                    bad.append((position, f"input{at} is {found}: {name} {self._bounds(at)}"))
                    break
            else:
                if not 0 <= int(labels[position]) < self.classes:
                    bad.append((position, f"label {labels[position]} is not in 0..{self.classes - 1}"))
        return bad

    def _bounds(self, at: list[int]) -> str:
        low, high = (bound if isinstance(bound, int) else bound[at[-1]] for bound in (self.low, self.high))
        return f"{low}..{high}"

    def describe(self) -> str:
        bounds = "per-field bounds" if isinstance(self.low, tuple) else f"{self.low}..{self.high}"
        return f"integers in {bounds}, labels 0..{self.classes - 1}"


@dataclass(frozen=True)
class FiniteReals:
    """Any finite numbers: the weakest domain, for data sets whose owner states no other."""

    def outside(self, inputs: Array, labels: Array) -> list[tuple[int, str]]:  # noqa: ARG002 - any label will do
        axes = tuple(range(1, inputs.ndim))
        bad = ~np.isfinite(np.asarray(inputs, np.float64)).all(axis=axes)
        return [(int(k), "input has a value that is not finite") for k in np.flatnonzero(bad)]

    def describe(self) -> str:
        return "finite numbers"

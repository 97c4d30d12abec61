"""Domain: the set of valid rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


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
        bad = self._bad_inputs(inputs)
        bad |= {
            int(k): f"label {labels[k]} is not in 0..{self.classes - 1}"
            for k in np.flatnonzero((labels < 0) | (labels >= self.classes))
        }
        return sorted(bad.items())

    def _bad_inputs(self, inputs: Array) -> dict[int, str]:
        whole = np.issubdtype(inputs.dtype, np.integer)
        if whole and isinstance(self.low, int) and isinstance(self.high, int):
            limits = np.iinfo(inputs.dtype)
            if self.low <= limits.min and limits.max <= self.high:
                return {}  # the dtype itself keeps to the bounds
        masks = {"below": inputs < np.asarray(self.low), "above": inputs > np.asarray(self.high)}
        if not whole:
            masks["not an integer in"] = inputs != np.rint(inputs)
        bad: dict[int, str] = {}
        for name, mask in masks.items():
            for position in np.flatnonzero(mask.reshape(len(inputs), -1).any(1)):
                at = np.argwhere(mask[position])[0].tolist()
                bad.setdefault(
                    int(position), f"input{at} is {inputs[position][tuple(at)]}: {name} {self._bounds(at)}"
                )
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

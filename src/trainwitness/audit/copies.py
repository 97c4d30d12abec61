"""Copies of one example among many rows: exact, scaled, mixed with another row, or nearly the same."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from trainwitness.tasks.domain import Array

Reals = npt.NDArray[np.float64]
Kind = Literal["exact", "scaled", "mixed", "near", "gradient"]
ROUNDING = 1.0
"""Root mean square, in raw units, that rounding and clipping may have added to a scaled or mixed copy."""
_PARTS = (0.05, 0.95)
_CANDIDATES = 64
_AT_ONCE = 4096


@dataclass(frozen=True)
class Copy:
    """A row that comes from the example."""

    row: int
    kind: Kind
    distance: float
    """Root mean square difference to the example, or to what it was scaled or mixed to, in raw units."""
    share: float = 1.0
    """What the example was multiplied with."""
    partner: int | None = None
    """The row it was mixed with."""


def copies(
    example: Array, rows: Array, *, near: float, partners: Array, partner_unit: Array | float = 1.0
) -> Iterator[Copy]:
    """Looks for `example` [d] among `rows` [N, d]; it may have been mixed with one of `partners` [M, d].

    `near` is the largest root mean square difference of a near copy. Partners are divided by their unit.
    """
    target = example.astype(np.float64)
    values = rows.astype(np.float64)
    distances = np.sqrt(((values - target) ** 2).mean(1))
    energy = float(target @ target)
    factors = values @ target / energy if energy else np.zeros(len(rows))
    rests = np.sqrt(((values - factors[:, None] * target) ** 2).mean(1))
    found: set[int] = set()
    for row in np.argsort(distances, kind="stable").tolist():
        if distances[row] == 0:
            yield Copy(row, "exact", 0.0)
        elif rests[row] <= ROUNDING and factors[row] > 0 and energy:
            yield Copy(row, "scaled", float(rests[row]), float(factors[row]))
        elif distances[row] <= near:
            yield Copy(row, "near", float(distances[row]))
        else:
            continue
        found.add(row)
    if energy:
        likely = [row for row in _by_correlation(target, values) if row not in found][:_CANDIDATES]
        yield from _mixed(target, values, likely, partners, partner_unit)


def _by_correlation(target: Reals, values: Reals) -> list[int]:
    centred = values - values.mean(0)
    with np.errstate(invalid="ignore", divide="ignore"):
        score = centred @ (target - values.mean(0)) / np.linalg.norm(centred, axis=1)
    return [int(row) for row in np.argsort(-np.nan_to_num(score), kind="stable")]


def _mixed(target: Reals, values: Reals, likely: list[int], partners: Array, unit: Array | float) -> Iterator[Copy]:
    """Least squares of each likely row by the example and one partner, for all partners at once."""
    some = values[likely]
    best = np.full(len(likely), np.inf)
    share, partner = np.zeros(len(likely)), np.full(len(likely), -1)
    for first in range(0, len(partners), _AT_ONCE):
        others = partners[first : first + _AT_ONCE] / unit
        rest, part = _two_parts(target, others, some)
        rest[_close(others, some) | (part < _PARTS[0]) | (part > _PARTS[1])] = np.inf
        at = rest.argmin(0)
        better = rest[at, np.arange(len(likely))] < best
        best[better] = rest[at, np.arange(len(likely))][better]
        share[better], partner[better] = part[at, np.arange(len(likely))][better], (first + at)[better]
    for number, row in enumerate(likely):
        if best[number] <= ROUNDING:
            yield Copy(row, "mixed", float(best[number]), float(share[number]), int(partner[number]))


def _two_parts(target: Reals, others: Reals, some: Reals) -> tuple[Reals, Reals]:
    """For each z of `others` and row of `some` [k, d]: the rest of share x + (1 - share) z (rms), and the share."""
    away = target - others  # some - z = share (x - z)
    energy = (away**2).sum(1)
    inner = away @ some.T - (away * others).sum(1)[:, None]
    with np.errstate(invalid="ignore", divide="ignore"):
        part = np.nan_to_num(inner / energy[:, None])
    gap = (some**2).sum(1) - 2 * others @ some.T + (others**2).sum(1)[:, None]
    return np.sqrt(np.maximum(gap - part * inner, 0) / some.shape[1]), part


def _close(others: Reals, some: Reals) -> npt.NDArray[np.bool_]:
    """Partners that are the row itself say nothing."""
    gap = (some**2).sum(1) - 2 * others @ some.T + (others**2).sum(1)[:, None]
    close: npt.NDArray[np.bool_] = gap <= (2 * ROUNDING) ** 2 * some.shape[1]
    return close

"""sparse: whole batches of a ReLU fully connected first layer, exactly (the idea of SPEAR, Dimitrov et al. 2024).

dW = D^T X / K with D [b, m] the errors at the first layer and X [b, n] the inputs: a matrix of rank b. Its singular
vectors give D^T = L Q and X = Q^-1 R up to an unknown b x b matrix Q. But D is sparse: a unit that an example leaves
inactive has no error. If all of b - 1 drawn rows of L belong to units inactive for example k, the one vector they are
orthogonal to is column k of Q; a right column shows itself by far more zeros in L q than the b - 1 drawn. The bias's
gradient is the sum of D's lines and gives the columns' lengths. The masks of the restored inputs must agree with D.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator

import torch

from trainwitness.core.errors import UsageError
from trainwitness.core.seeds import derive
from trainwitness.leakage.inputs.first_layer import FirstLayer
from trainwitness.leakage.inputs.labelled import labels_for
from trainwitness.leakage.inputs.restored import Restoration
from trainwitness.leakage.inputs.target import Target

AT_ONCE = 4096
SECONDS = 60.0
SPARE = 4
"""Zeros beyond the b - 1 drawn that single out a column."""
TOLERANCES = {torch.float64: 1e-9, torch.float32: 3e-4}
"""A value below this share of the largest is a zero."""
DISAGREEING = 0.002
"""Share of active units that may look inactive by rounding."""


def reconstruct(target: Target, *, seed: int = 0, seconds: float = SECONDS) -> Restoration:
    """All inputs of the batch; an error where no answer agreed with itself in the time."""
    layer = FirstLayer.of(target)
    if not layer.rectified:
        raise UsageError("no ReLU follows the first layer, so its errors are not sparse", hint="use dlg or ig")
    count = target.count
    tolerance = TOLERANCES[target.stepper.dtype]
    left, values, right = torch.linalg.svd(layer.weight_gradient, full_matrices=False)
    rank = int((values > tolerance * values[0]).sum()) if len(values) and values[0] > 0 else 0
    if rank < count:
        raise UsageError(
            f"the first layer's gradient has rank {rank} for {count} examples",
            hint="inputs or their errors depend on each other, or the layer is narrower than the batch",
        )
    factor, basis = left[:, :count], values[:count, None] * right[:count]
    for columns in _choices(factor, count, tolerance, derive(seed, "sparse"), seconds):
        errors = factor @ columns
        lengths = torch.linalg.lstsq(errors, layer.bias_gradient[:, None]).solution[:, 0]
        lines = torch.linalg.solve(columns * lengths, basis)
        wrong = _disagreement(layer, errors, lines, tolerance)
        unexplained = float((errors @ lengths - layer.bias_gradient).norm() / layer.bias_gradient.norm())
        if wrong <= DISAGREEING and unexplained <= 1e3 * tolerance:
            inputs = layer.as_inputs(target, lines)
            return Restoration(inputs, labels_for(target, inputs), wrong)
    raise UsageError(
        f"the {count} examples were not singled out in {seconds:.0f} s",
        hint="a smaller batch, more time, or float64 gradients",
    )


def _choices(factor: torch.Tensor, count: int, tolerance: float, seed: int, seconds: float) -> Iterator[torch.Tensor]:
    """After each round of draws, the b independent candidates with the most zeros, as columns of Q."""
    lengths = factor.norm(dim=1, keepdim=True)
    rows = (factor / lengths)[lengths[:, 0] > tolerance * lengths.max()]
    if count == 1:
        yield torch.ones(1, 1, dtype=factor.dtype)
        return
    generator = torch.Generator().manual_seed(seed)
    found = _Found(rows, tolerance)
    started = time.perf_counter()
    while time.perf_counter() - started < seconds:
        found.look(_orthogonal(rows[_draws(len(rows), count - 1, generator)]))
        chosen = found.independent()
        if chosen.shape[1] == count:
            yield chosen


def _draws(rows: int, size: int, generator: torch.Generator) -> torch.Tensor:
    """Choices of `size` of the rows [draws, size]: random orders of all rows, cut in pieces."""
    pieces = rows // size
    orders = torch.rand(-(-AT_ONCE // pieces), rows, generator=generator).argsort(1)
    return orders[:, : pieces * size].reshape(-1, size)


def _orthogonal(chosen: torch.Tensor) -> torch.Tensor:
    """The unit vector orthogonal to the b - 1 rows of each draw [draws, b - 1, b]; dependent rows are left out."""
    found, failed = torch.linalg.solve_ex(chosen[:, :, :-1], -chosen[:, :, -1])
    ended = torch.cat([found, torch.ones_like(found[:, :1])], 1)
    lengths = ended.norm(dim=1, keepdim=True)
    good = (failed == 0) & torch.isfinite(lengths[:, 0])
    out: torch.Tensor = (ended / lengths)[good]
    return out


class _Found:
    """Columns that were singled out [k, b] and their zeros [k], most zeros first."""

    def __init__(self, rows: torch.Tensor, tolerance: float) -> None:
        self.rows, self.tolerance, self.count = rows, tolerance, rows.shape[1]
        self.columns = rows.new_zeros(0, self.count)
        self.zeros = torch.zeros(0, dtype=torch.long)

    def look(self, candidates: torch.Tensor) -> None:
        """Takes the candidates with the most zeros, one of each kind, that are not known."""
        zero = (self.rows @ candidates.T).abs() < _rough(self.tolerance)
        counts = zero.sum(0)
        counts[self._alike(candidates, self.columns).any(1)] = 0
        left = counts.argsort(descending=True)
        left = left[counts[left] >= self.count - 1 + SPARE]
        columns = []
        for _ in range(8 * self.count):
            if not len(left):
                break
            columns += self._refined(zero[:, left[0]])
            left = left[~self._alike(candidates[left], candidates[left[:1]])[:, 0]]
        self._add(columns)

    def _refined(self, zero: torch.Tensor) -> list[torch.Tensor]:
        """The column by all its zeros at once; nothing where they are not zeros to rounding."""
        chosen = self.rows[zero]
        column = torch.linalg.svd(chosen, full_matrices=False).Vh[-1]
        return [column] if self._zeros(column[None])[0] >= self.count - 1 + SPARE else []

    def _alike(self, some: torch.Tensor, others: torch.Tensor) -> torch.Tensor:
        """Which pairs of unit vectors are one, up to sign and rounding; false columns come very near to true ones."""
        return 1 - (some @ others.T).abs() < max(1e-10, 10 * self.tolerance**2)

    def _zeros(self, columns: torch.Tensor) -> torch.Tensor:
        return ((self.rows @ columns.T).abs() < 10 * self.tolerance).sum(0)

    def _add(self, columns: list[torch.Tensor]) -> None:
        if not columns:
            return
        both = torch.cat([self.columns, torch.stack(columns)])
        new = self._alike(both, both).int().argmax(1) == torch.arange(len(both))
        zeros = torch.cat([self.zeros, self._zeros(torch.stack(columns))])[new]
        order = zeros.argsort(descending=True, stable=True)[: 16 * self.count]
        self.columns, self.zeros = both[new][order], zeros[order]

    def independent(self) -> torch.Tensor:
        """Up to b columns of most zeros that do not depend on each other [b, k]."""
        chosen: list[torch.Tensor] = []
        for column in self.columns:
            if len(chosen) < self.count and float(torch.linalg.svdvals(torch.stack([*chosen, column]))[-1]) > 1e-3:
                chosen.append(column)
        return torch.stack(chosen, 1) if chosen else self.columns.T


def _rough(tolerance: float) -> float:
    """What counts as zero before refinement: a draw of rows that nearly depend on each other magnifies rounding."""
    return 1e-3 * math.sqrt(math.sqrt(tolerance))


def _disagreement(layer: FirstLayer, errors: torch.Tensor, lines: torch.Tensor, tolerance: float) -> float:
    """The share of units that have an error though the restored input leaves them inactive: 0 for a right answer."""
    active = lines @ layer.weight.T + layer.bias > 0
    with_error = (errors.abs() > 1e3 * tolerance * errors.abs().max(0).values).T
    return float((with_error & ~active).double().sum() / with_error.double().sum().clamp(min=1))

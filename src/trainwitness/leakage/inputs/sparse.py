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
SAME = 0.9999
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
    generator = torch.Generator().manual_seed(seed)
    found: list[tuple[int, torch.Tensor]] = []
    started = time.perf_counter()
    while time.perf_counter() - started < seconds:
        drawn = torch.rand(AT_ONCE, len(rows), generator=generator).topk(count - 1, dim=1).indices
        _, directions = torch.linalg.eigh(rows[drawn].transpose(1, 2) @ rows[drawn])
        _look(found, rows, directions[:, :, 0], tolerance)
        chosen = _independent(found, count)
        if len(chosen) == count:
            yield torch.stack(chosen, 1)


def _look(
    found: list[tuple[int, torch.Tensor]], rows: torch.Tensor, candidates: torch.Tensor, tolerance: float
) -> None:
    """Takes the candidates with the most zeros, one of each kind."""
    zero = (rows @ candidates.T).abs() < _rough(tolerance)
    counts = zero.sum(0)
    for _ in range(8 * candidates.shape[1]):
        best = int(counts.argmax())
        if int(counts[best]) < candidates.shape[1] - 1 + SPARE:
            break
        _add(found, rows, zero[:, best], tolerance)
        counts[(candidates @ candidates[best]).abs() > SAME] = 0


def _rough(tolerance: float) -> float:
    """What counts as zero before refinement: eigenvectors of squares carry the square root of the rounding."""
    return 1e-3 * math.sqrt(math.sqrt(tolerance))


def _add(found: list[tuple[int, torch.Tensor]], rows: torch.Tensor, zero: torch.Tensor, tolerance: float) -> None:
    """Refines a candidate on all its zeros, and keeps it if they are zeros to rounding and it is new."""
    column = torch.linalg.svd(rows[zero], full_matrices=False).Vh[-1]
    zeros = int(((rows @ column).abs() < 10 * tolerance).sum())
    if zeros >= len(column) - 1 + SPARE and all(float((column @ other).abs()) < SAME for _, other in found):
        found.append((zeros, column))
        found.sort(key=lambda pair: -pair[0])
        del found[16 * len(column) :]


def _independent(found: list[tuple[int, torch.Tensor]], count: int) -> list[torch.Tensor]:
    chosen: list[torch.Tensor] = []
    for _, column in found:
        if len(chosen) < count and float(torch.linalg.svdvals(torch.stack([*chosen, column]))[-1]) > 1e-3:
            chosen.append(column)
    return chosen


def _disagreement(layer: FirstLayer, errors: torch.Tensor, lines: torch.Tensor, tolerance: float) -> float:
    """The share of units that have an error though the restored input leaves them inactive: 0 for a right answer."""
    active = lines @ layer.weight.T + layer.bias > 0
    with_error = (errors.abs() > 1e3 * tolerance * errors.abs().max(0).values).T
    return float((with_error & ~active).double().sum() / with_error.double().sum().clamp(min=1))

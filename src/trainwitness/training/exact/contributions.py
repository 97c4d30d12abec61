"""What each example adds to the unrounded sums: whole numbers, whose last bits can prove them independent."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch

from trainwitness.core.batch import Batch
from trainwitness.core.errors import UsageError
from trainwitness.core.seeds import derive, permutation
from trainwitness.core.state import State
from trainwitness.training.exact.witness import Operands
from trainwitness.training.stepper import Stepper


def last_bits(
    stepper: Stepper, state: State, rows: Sequence[int], columns: int, seed: int = 0
) -> npt.NDArray[np.uint8]:
    """[examples, columns]: the last bits of the examples' contributions to linear layers' sums, in the finest limb.

    The rows are computed as one batch, so that all contributions are whole numbers of the same units: an error in
    units of the finest limb times an activation in units of its grid. Of every layer that sees one line per example,
    up to `columns` random weights are taken.
    """
    stepper.capture = True
    try:
        stepper(state, Batch(0, 0, (tuple(rows),)))
    finally:
        stepper.capture = False
    layers = [held for _, held in sorted(stepper.witnesses[0].operands.items()) if len(held.rows) == len(rows)]
    if not layers:
        raise UsageError("no linear layer sees one line per example", hint="the certificate needs one")
    found = [_products(held, columns, derive(seed, "columns", k)) for k, held in enumerate(layers)]
    return np.ascontiguousarray(np.concatenate(found, axis=1))


def _products(held: Operands, columns: int, seed: int) -> npt.NDArray[np.uint8]:
    """A product of whole numbers is odd where both are."""
    outputs, inputs = held.errors.shape[1], held.rows.shape[1]
    chosen = permutation(seed, outputs * inputs)[:columns]
    errors, rows = (_odd(x, unit) for x, unit in ((held.errors, held.error_unit), (held.rows, held.row_unit)))
    found: npt.NDArray[np.uint8] = errors[:, chosen // inputs] & rows[:, chosen % inputs]
    return found


def _odd(x: torch.Tensor, unit: torch.Tensor) -> npt.NDArray[np.uint8]:
    whole = (x / unit).remainder(2)  # exact: the unit is a power of two
    return whole.to(torch.uint8).cpu().numpy()

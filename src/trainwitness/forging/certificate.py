"""certificate: no other multiset of examples from this pool has the same exact gradient sum (Baluta et al. 2023).

Gradients in fixed point are whole numbers. If their least significant bits, one line per example, have full row rank
over GF(2), some minor is odd and so not 0: the lines are linearly independent over the rationals, and two different
multisets of them never have the same sum.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from trainwitness.core.errors import UsageError
from trainwitness.core.seeds import derive, permutation
from trainwitness.forging.binary_rank import binary_rank, pack
from trainwitness.forging.forge import recorded_step
from trainwitness.trace.reader import Trace
from trainwitness.training.per_example import PerExample
from trainwitness.training.stepper import Stepper

FRACTION_BITS = 26
NOT_COVERED = (
    "examples that are not in the pool",
    "updates that are rounded: gradients beyond the fixed point's bits, or sums kept in floating point",
)


@dataclass(frozen=True)
class Certificate:
    """`holds` says that the pool's fixed-point gradients are linearly independent."""

    examples: int
    parameters: int
    columns: int
    """Parameters that were looked at; fewer than all of them are enough."""
    fraction_bits: int
    rank: int
    seconds: float

    @property
    def holds(self) -> bool:
        return self.rank == self.examples


def certify_step(
    trace: Trace,
    stepper: Stepper,
    step: int,
    *,
    pool: int,
    fraction_bits: int = FRACTION_BITS,
    seed: int = 0,
    advance: Callable[[int], None] = lambda _: None,
) -> Certificate:
    """For the State before a recorded step; the pool is the step's own batch and random other rows."""
    segment, count = recorded_step(trace, step), len(stepper.task.dataset)
    if segment.batches[0].carried:
        raise UsageError(f"step {step} carries rows of its own", hint="a pool consists of rows of the data set")
    own = [row for micro in segment.batches[0].rows for row in micro]
    if not len(own) <= pool <= count:
        raise UsageError(
            f"a pool of {pool} rows: the batch has {len(own)} and the data set {count}",
            hint="choose a number between the two",
        )
    taken = set(own)
    others = [row for row in permutation(derive(seed, "pool", step), count).tolist() if row not in taken]
    return certify(
        PerExample(stepper, segment.before),
        (own + others)[:pool],
        fraction_bits=fraction_bits,
        seed=seed,
        advance=advance,
    )


def certify(
    gradients: PerExample,
    rows: Sequence[int],
    *,
    fraction_bits: int = FRACTION_BITS,
    seed: int = 0,
    advance: Callable[[int], None] = lambda _: None,
) -> Certificate:
    """Tries twice as many parameters as there are examples, then all of them."""
    started = time.perf_counter()
    if len(set(rows)) != len(rows):
        raise UsageError("a row occurs twice in the pool", hint="a pool has each row once")
    if len(rows) > gradients.width:
        raise UsageError(
            f"{len(rows)} examples and {gradients.width} parameters: gradients cannot be independent",
            hint=f"take a pool of at most {gradients.width} examples",
        )
    rank, used = 0, 0
    for wanted in (min(2 * len(rows), gradients.width), gradients.width):
        if rank < len(rows) and wanted > used:
            bits = least_bits(gradients, rows, fraction_bits, wanted, derive(seed, "columns"), advance)
            rank, used = binary_rank(pack(bits)), bits.shape[1]
    return Certificate(len(rows), gradients.width, used, fraction_bits, rank, time.perf_counter() - started)


def least_bits(
    gradients: PerExample,
    rows: Sequence[int],
    fraction_bits: int,
    columns: int,
    seed: int,
    advance: Callable[[int], None] = lambda _: None,
) -> np.ndarray:
    """The last bit of floor(2^bits g) at random parameters; those without gradient in the first rows come last."""
    out, chosen = np.empty((len(rows), columns), np.uint8), torch.empty(0, dtype=torch.int64)
    for first, piece in gradients.pieces(rows):
        if not len(chosen):
            silent = (piece == 0).all(0).cpu().numpy()
            order = permutation(seed, gradients.width)
            chosen = torch.from_numpy(order[np.argsort(silent[order], kind="stable")][:columns]).to(piece.device)
        whole = torch.floor(piece[:, chosen] * 2.0**fraction_bits)  # exact: a power of two
        out[first : first + len(piece)] = whole.remainder(2).to(torch.uint8).cpu().numpy()
        advance(len(piece))
    return out

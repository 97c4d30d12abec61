"""Forgery: another batch that is claimed to give the same step."""

from __future__ import annotations

from dataclasses import dataclass

from trainwitness.core.batch import Batch


@dataclass(frozen=True)
class Cost:
    """What an attack took."""

    seconds: float
    gradients: int
    """Per-example gradients computed (one backward pass over b examples counts b)."""
    candidates: int
    """Candidate batches scored."""


@dataclass(frozen=True)
class Forgery:
    """A batch in place of another, with its error as the step function gives it, never as the attack thinks."""

    attack: str
    step: int
    batch: Batch
    replaced: tuple[int, ...]
    """Positions in the batch whose examples were replaced."""
    error: float
    """l2 between the stored parameters and g(State before, this batch)."""
    update: float
    """l2 of the honest update, to see the error in proportion."""
    cost: Cost
    problems: tuple[str, ...] = ()
    """Why a verifier refuses the batch whatever its error: rows outside the domain, the same batch."""
    residual: float | None = None
    """For attacks that aim at the same gradient: l2 between both batches' steps in float64, where rounding is far
    below the error."""
    twins: int = 0
    """Rows of the data set with the content of an example that went: exchanging them is honest, and free."""

"""largest: the largest honest error observed, times a margin."""

from __future__ import annotations

from dataclasses import dataclass

from trainwitness.core.errors import UsageError
from trainwitness.core.verdict import MAX_SHARE, Threshold
from trainwitness.verification.calibration import Calibration, Part
from trainwitness.verification.policies.held_out import held_out
from trainwitness.verification.policies.jumps import jump_cap
from trainwitness.verification.policies.policy import bounded

MARGIN = 4.0


@dataclass(frozen=True)
class Largest:
    """The paper's eps_repr (section 4.1) with room above it. It grows with the number of samples, slowly."""

    calibration: Calibration
    margin: float = MARGIN

    def __post_init__(self) -> None:
        if not self.margin >= 1:
            raise UsageError(
                f"a margin of {self.margin}", hint="the largest honest error needs a margin of at least 1"
            )

    def threshold(self) -> Threshold:
        value = bounded(largest_of(self.calibration, "l2") * self.margin, self.calibration)
        return Threshold(
            value=value,
            origin=f"{self.margin:g} x the largest of {len(self.calibration.samples)} honest errors",
            buffers=min(MAX_SHARE, largest_of(self.calibration, "buffers") * self.margin),
            optimizer=min(MAX_SHARE, largest_of(self.calibration, "optimizer") * self.margin),
            jumps=jump_cap(self.calibration),
            false_rejection=held_out(self.calibration, lambda part: largest_of(part, "l2") * self.margin),
        )


def largest_of(calibration: Calibration, part: Part) -> float:
    """The largest honest error of one part of the State."""
    return max((float(errors.max()) for errors in calibration.errors(part).values()), default=0.0)

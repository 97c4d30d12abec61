"""How often a policy would reject the honest: judged on stages that it was not fitted to."""

from __future__ import annotations

from collections.abc import Callable

from trainwitness.core.verdict import FalseRejection
from trainwitness.verification.calibration import Calibration
from trainwitness.verification.noise import NOT_HARDWARE


def held_out(
    calibration: Calibration,
    fit: Callable[[Calibration], float],
    *,
    stated: float | None = None,
    steps: int = 1000,
) -> FalseRejection:
    """Fits to all stages but one, judges that one, in turn."""
    samples = [sample for sample in calibration.samples if sample.source not in NOT_HARDWARE]
    above = judged = 0
    for stage in range(len(calibration.stages)):
        rest = [sample for sample in samples if sample.stage != stage]
        if not rest:
            continue
        limit = fit(calibration.model_copy(update={"samples": rest}))
        own = [sample.l2 for sample in samples if sample.stage == stage]
        above, judged = above + sum(error > limit for error in own), judged + len(own)
    return FalseRejection(
        stated=stated, steps=steps, held_out=judged, held_out_above=above, horizon=calibration.horizon
    )

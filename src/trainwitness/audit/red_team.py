"""verify + red team: a verdict that knows how near the attacks come."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trainwitness.audit.margin import ATTACKS, ForgeryMargin, forgery_margin
from trainwitness.core.errors import UsageError
from trainwitness.core.numerics import Numerics
from trainwitness.core.verdict import Verdict
from trainwitness.tasks.task import Task
from trainwitness.trace.reader import Trace
from trainwitness.training.stepper import Stepper
from trainwitness.verification.resolve import numerics_for


def with_red_team(
    verdict: Verdict,
    trace: Trace,
    task: Task,
    numerics: Numerics | None = None,
    *,
    attacks: Sequence[str] = ATTACKS,
    required: bool = False,
) -> tuple[Verdict, ForgeryMargin]:
    """The verdict with the property `forgery_margin`.

    A margin that is refuted leaves the answer alone (the trace is as it was) but an ACCEPT then says that it does not
    establish the data. Where the margin is `required`, an ACCEPT without it becomes INCONCLUSIVE.
    """
    if verdict.threshold is None or verdict.threshold.value == 0:
        raise UsageError("a red team needs a threshold above 0", hint="give --threshold EPS or --calibration FILE")
    stepper = Stepper(task, numerics_for(trace.manifest, numerics))
    margin = forgery_margin(trace, stepper, verdict.threshold.value, attacks=attacks)
    found = margin.as_property()
    update: dict[str, Any] = {"properties": {**verdict.properties, "forgery_margin": found}}
    if required and found.standing != "established" and verdict.verdict == "ACCEPT":
        update |= {"verdict": "INCONCLUSIVE", "reasons": [f"forgery_margin is required: {found.why}"]}
    elif found.standing == "refuted":
        update["reasons"] = [*verdict.reasons, f"forgery_margin: {found.why}"]
    return verdict.model_copy(update=update), margin

"""From properties to a Verdict."""

from __future__ import annotations

from collections.abc import Sequence

from trainwitness.core.numerics import Numerics
from trainwitness.core.verdict import PROPERTIES, Answer, Property, PropertyName, StepError, Threshold, Verdict
from trainwitness.tasks.task import Task
from trainwitness.trace.reader import Trace


def conclude(
    trace: Trace,
    task: Task,
    numerics: Numerics,
    *,
    properties: dict[PropertyName, Property],
    require: Sequence[PropertyName],
    errors: list[StepError],
    recomputed: tuple[int, int],
    step_root: str,
    threshold: Threshold | None = None,
    more_reasons: Sequence[str] = (),
    more_doubts: Sequence[str] = (),
) -> Verdict:
    """REJECT if anything but `exact` is refuted; ACCEPT if what is required is established, for every step.

    `more_reasons` are said beside a refuted `reproduced`; `more_doubts` stand in the way of ACCEPT.
    """
    absent = Property(standing="unknown", why="not checked")
    properties = {name: properties.get(name, absent) for name in PROPERTIES}
    complete = recomputed == (0, trace.steps)
    reasons = [f"{name}: {p.why}" for name, p in properties.items() if p.standing == "refuted" and name != "exact"]
    if properties["reproduced"].standing == "refuted":
        reasons += more_reasons
    answer: Answer = "REJECT" if reasons else "ACCEPT"
    doubts = [
        f"{name} is required: {properties[name].why}"
        for name in dict.fromkeys(("reproduced", *require))
        if properties[name].standing != "established"
    ]
    doubts += more_doubts
    if not complete:
        doubts.append(f"only steps {recomputed[0]}:{recomputed[1]} of {trace.steps} were recomputed")
    if not trace.sealed:
        doubts.append("the trace is unsealed: its recording was interrupted")
    if answer != "REJECT" and doubts:
        answer, reasons = "INCONCLUSIVE", list(dict.fromkeys(doubts))
    if answer == "ACCEPT":
        reasons = [properties["reproduced"].why]
    return Verdict(
        verdict=answer,
        threshold=threshold,
        max_l2=max((error.l2 for error in errors), default=0.0),
        reasons=reasons,
        properties=properties,
        steps=errors,
        sealed=trace.sealed,
        step_root=step_root if complete and trace.chunks else None,
        recomputed_on=f"{numerics.precision} on {numerics.device}, {numerics.threads} threads",
        task=task.spec.model_dump() if task.spec else None,
    )

"""verify: recompute a trace and say what is established."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch

from trainwitness.commitments.merkle import Frontier
from trainwitness.core.errors import TraceDamaged, TraceMismatch, UsageError
from trainwitness.core.numerics import Numerics
from trainwitness.core.verdict import (
    MAX_SHARE,
    PROPERTIES,
    Answer,
    Property,
    PropertyName,
    StepError,
    Threshold,
    Verdict,
)
from trainwitness.tasks.registry import build_task
from trainwitness.tasks.task import Task, TaskSpec
from trainwitness.trace.format import Manifest, initial_leaf
from trainwitness.trace.reader import Segment, Trace
from trainwitness.trace.record import with_threads
from trainwitness.training.stepper import Stepper
from trainwitness.training.vectorised import VectorisedSteps
from trainwitness.verification.cast import cast
from trainwitness.verification.data import check_data
from trainwitness.verification.initial import check_initial
from trainwitness.verification.model_file import check_model
from trainwitness.verification.recompute import Recomputed, Recomputer, read_ahead
from trainwitness.verification.rows import DomainCheck, replaced_rows, row_problems
from trainwitness.verification.schedule import ScheduleCheck

OnStep = Callable[[StepError], None]
_SHOWN = 5
_AT_ONCE = 64


def verify(
    trace: Trace | Path | str,
    *,
    task: Task | TaskSpec | str | None = None,
    data: Path | None = None,
    threshold: Threshold | None = None,
    steps: tuple[int, int] | None = None,
    numerics: Numerics | None = None,
    model: Path | None = None,
    require: Sequence[PropertyName] = ("reproduced",),
    one_by_one: bool = False,
    on_step: OnStep | None = None,
) -> Verdict:
    """Computes every step of `trace` again and compares the whole State.

    `task` defaults to the built-in task the trace names; for any other the verifier must name (or bring) it. Without
    a threshold only errors of exactly 0 are accepted. `numerics` defaults to the trace's own, on CPU if its device
    is not here. ACCEPT needs every property in `require`, none refuted, all steps, and a sealed trace. Given a
    threshold, steps of very small models are computed many at once, unless told `one_by_one` or `exact` is required.

    >>> verify("run.trace", threshold=Threshold(value=1e-6)).verdict             # doctest: +SKIP
    'ACCEPT'
    """
    for name in require:
        if name not in PROPERTIES:
            raise UsageError(f"unknown property {name!r}", hint=f"properties: {', '.join(PROPERTIES)}")
    trace = trace if isinstance(trace, Trace) else Trace.open(trace)
    task = resolve_task(task, trace.manifest, data)
    stepper = Stepper(task, numerics_for(trace.manifest, numerics))
    run = _Verification(trace, task, stepper, threshold, steps or (0, trace.steps))
    # Many steps at once differ by rounding from one by one, so only where a threshold allows that.
    one_by_one = one_by_one or threshold is None or "exact" in require
    run.vectorised = not one_by_one and VectorisedSteps.supports(stepper)
    return run.run(model, require, on_step)


def resolve_task(task: Task | TaskSpec | str | None, manifest: Manifest, data: Path | None) -> Task:
    """The task to verify with. A trace may name a built-in task; code of its own choosing it may not."""
    stated = manifest.task
    if isinstance(task, Task):
        return task
    if task is None:
        if stated is None or ":" in stated.name:
            raise UsageError(
                f"the trace was recorded with {stated.name if stated else 'a loop of its own'}",
                hint="name the task yourself with --task package.module:function; a trace's own code is never run",
            )
        return build_task(stated, data=data)
    spec = TaskSpec(name=task) if isinstance(task, str) else task
    if stated is None:
        return build_task(spec, data=data)
    if spec.name != stated.name:
        raise TraceMismatch(f"the trace is of task {stated.name!r}, not {spec.name!r}", hint="check --task")
    for key, value in spec.options.items():
        if stated.options.get(key) != value:
            raise TraceMismatch(f"the trace was recorded with {key}={stated.options.get(key)}, not {value}")
    return build_task(stated, data=data)


def numerics_for(manifest: Manifest, wanted: Numerics | None) -> Numerics:
    """The trace's Numerics unless told otherwise; CPU where the trace's device is not here."""
    if wanted is not None:
        return with_threads(wanted)
    theirs = manifest.numerics
    here = theirs.device == "cpu" or (theirs.device.startswith("cuda") and torch.cuda.is_available())
    return theirs if here else with_threads(theirs.model_copy(update={"device": "cpu", "threads": None}))


@dataclass
class _Verification:
    trace: Trace
    task: Task
    stepper: Stepper
    threshold: Threshold | None
    range: tuple[int, int]
    errors: list[StepError] = field(default_factory=list)
    bad: list[StepError] = field(default_factory=list)
    replaced: int = 0
    vectorised: bool = False
    waiting: list[Segment] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.domain = DomainCheck(self.task.dataset)

    @property
    def complete(self) -> bool:
        return self.range == (0, self.trace.steps)

    def run(self, model: Path | None, require: Sequence[PropertyName], on_step: OnStep | None) -> Verdict:
        manifest = self.trace.manifest
        if manifest.seed != self.task.seed:
            raise TraceMismatch(f"the trace has seed {manifest.seed}, the task {self.task.seed}")
        properties: dict[PropertyName, Property] = {"data_matches": check_data(self.task.dataset, manifest)}
        initial, tree = self.stepper.state(), Frontier()
        if self.trace.chunks:
            stored = self.trace.initial_state()
            tree.append(initial_leaf(stored.digest().hex()))
            expected = cast(initial, torch.float64 if manifest.numerics.precision == "float64" else torch.float32)
            properties["initialised"] = check_initial(stored, expected, manifest)
        schedule = ScheduleCheck(self.task, manifest, self.stepper.live.groups())
        recompute = Recomputer(self.stepper)
        final = None
        stop = None if self.complete else self.range[1]  # to the last byte, if everything is asked for
        for segment in read_ahead(self.trace.segments(self.range[0], stop)):
            for leaf, record in zip(segment.leaves, segment.records, strict=True):
                tree.append(leaf)
                schedule.step(record)
            self._segment(segment, recompute, on_step)
            final = segment.after
        self._compute_waiting(recompute, on_step)
        if self.replaced:
            why = f"{self.replaced} rows are carried by the trace and differ from the data set's"
            properties["data_matches"] = Property(standing="refuted", why=why)
        properties["scheduled"] = schedule.result(complete=self.complete)
        if model is not None:
            properties["model_bound"] = check_model(
                model, final if self.complete and final else self.trace.final_state()
            )
        properties |= self._reproduced()
        if self.complete and self.trace.seal and tree.root().hex() != self.trace.seal.step_root:
            raise TraceDamaged("seal.json: the step root is not that of the steps")
        return self._verdict(properties, require, recompute, tree)

    def _segment(self, segment: Segment, recompute: Recomputer, on_step: OnStep | None) -> None:
        problems = []
        for batch in segment.batches:
            problems += row_problems(batch, self.task.dataset)
            self.replaced += len(replaced_rows(batch, self.task.dataset))
        if not problems and self.vectorised and recompute.fits(segment):
            if self.waiting and segment.batches[0].size != self.waiting[0].batches[0].size:
                self._compute_waiting(recompute, on_step)
            self.waiting.append(segment)
            if len(self.waiting) == _AT_ONCE:
                self._compute_waiting(recompute, on_step)
            return
        self._compute_waiting(recompute, on_step)
        if problems:
            step = segment.records[-1].step
            error = StepError(step=step, l2=math.inf, linf=math.inf, relative=math.inf, problems=problems)
            self._judge(segment, Recomputed(error, 0.0), on_step)
        else:
            self._judge(segment, recompute(segment, segment.batches), on_step)

    def _compute_waiting(self, recompute: Recomputer, on_step: OnStep | None) -> None:
        """Computes the waiting steps at once; one that comes out too far is computed again by itself."""
        waiting, self.waiting = self.waiting, []
        if not waiting:
            return
        for segment, done in zip(waiting, recompute.many(waiting), strict=True):
            alone = done if self._tolerated(done) else recompute(segment, segment.batches)
            self._judge(segment, alone, on_step)

    def _judge(self, segment: Segment, done: Recomputed, on_step: OnStep | None) -> None:
        outside = [] if done.error.problems else [p for batch in segment.batches for p in self.domain(batch)]
        if outside:
            done = Recomputed(done.error.model_copy(update={"problems": outside}), done.update)
        self.errors.append(done.error)
        if not self._tolerated(done):
            self.bad.append(done.error)
        if on_step:
            on_step(done.error)

    def _tolerated(self, done: Recomputed) -> bool:
        error = done.error
        if error.problems:
            return False
        if self.threshold is None:
            return error.exact
        value = self.threshold.value
        share = min(value / done.update, MAX_SHARE) if done.update else MAX_SHARE
        return error.l2 <= value and max(error.buffers, error.optimizer) <= share

    def _reproduced(self) -> dict[PropertyName, Property]:
        exact = all(error.exact for error in self.errors)
        hard = [error for error in self.bad if error.problems or self.threshold is not None]
        if hard:
            return dict.fromkeys(("reproduced", "exact"), Property(standing="refuted", why=_describe(hard[0])))
        if not self.complete:
            why = f"only steps {self.range[0]}:{self.range[1]} of {self.trace.steps} were recomputed"
            return dict.fromkeys(("reproduced", "exact"), Property(standing="unknown", why=why))
        if exact:
            why = f"all {self.trace.steps} steps give the stored States bit for bit"
            return dict.fromkeys(("reproduced", "exact"), Property(standing="established", why=why))
        largest = max(error.l2 for error in self.errors)
        inexact = Property(standing="refuted", why=f"errors up to {largest:.2e} (l2)")
        if self.vectorised:
            why = "many steps were computed at once, which rounds otherwise; computing them one by one would tell"
            inexact = Property(standing="unknown", why=why)
        if self.threshold is None:
            why = f"errors up to {largest:.2e} (l2) were found and no threshold was given to judge them by"
            return {"reproduced": Property(standing="unknown", why=why), "exact": inexact}
        why = f"no error is above {self.threshold.value:.2e} ({self.threshold.origin}); the largest is {largest:.2e}"
        return {"reproduced": Property(standing="established", why=why), "exact": inexact}

    def _verdict(
        self,
        properties: dict[PropertyName, Property],
        require: Sequence[PropertyName],
        recompute: Recomputer,
        tree: Frontier,
    ) -> Verdict:
        absent = Property(standing="unknown", why="not checked")
        properties = {name: properties.get(name, absent) for name in PROPERTIES}
        reasons = [
            f"{name}: {p.why}" for name, p in properties.items() if p.standing == "refuted" and name != "exact"
        ]
        reasons += [_describe(error) for error in self.bad[1:_SHOWN] if self.threshold or error.problems]
        answer: Answer = "REJECT" if reasons else "ACCEPT"
        doubts = [
            f"{name} is required: {properties[name].why}"
            for name in require
            if properties[name].standing != "established"
        ]
        if not self.complete:
            doubts.append(f"only steps {self.range[0]}:{self.range[1]} of {self.trace.steps} were recomputed")
        if not self.trace.sealed:
            doubts.append("the trace is unsealed: its recording was interrupted")
        theirs, mine = self.trace.manifest.numerics.device, self.stepper.numerics.device
        if recompute.random and torch.device(theirs).type != torch.device(mine).type:
            answer = "INCONCLUSIVE"
            doubts.insert(0, f"random numbers drawn on {theirs} (dropout) cannot be drawn again on {mine}")
        if answer != "REJECT" and doubts:
            answer, reasons = "INCONCLUSIVE", list(dict.fromkeys(doubts))
        if answer == "ACCEPT":
            reasons = [properties["reproduced"].why]
        numerics = self.stepper.numerics
        return Verdict(
            verdict=answer,
            threshold=self.threshold,
            max_l2=max((error.l2 for error in self.errors), default=0.0),
            reasons=reasons,
            properties=properties,
            steps=self.errors,
            sealed=self.trace.sealed,
            step_root=tree.root().hex() if self.complete and self.trace.chunks else None,
            recomputed_on=f"{numerics.precision} on {numerics.device}, {numerics.threads} threads",
        )


def _describe(error: StepError) -> str:
    if error.problems:
        return f"step {error.step}: {error.problems[0]}"
    return (
        f"step {error.step}: l2 error {error.l2:.2e} ({error.relative:.1e} of the update), "
        f"optimiser {error.optimizer:.1e}, buffers {error.buffers:.1e} of their size"
    )

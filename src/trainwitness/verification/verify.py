"""verify: recompute a trace and say what is established."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from trainwitness.commitments.commitment import Committed
from trainwitness.commitments.merkle import Frontier
from trainwitness.core.errors import TraceMismatch, UsageError
from trainwitness.core.numerics import Numerics
from trainwitness.core.verdict import (
    PROPERTIES,
    Judge,
    Property,
    PropertyName,
    StepError,
    Threshold,
    Verdict,
)
from trainwitness.tasks.task import Task, TaskSpec
from trainwitness.trace.exact_reader import ExactTrace
from trainwitness.trace.format import initial_leaf
from trainwitness.trace.reader import Trace
from trainwitness.trace.segments import Segment
from trainwitness.training.apply_numerics import COMPUTE_DTYPE
from trainwitness.training.stepper import Stepper
from trainwitness.verification.calibration import Calibration
from trainwitness.verification.calibration_fit import calibration_mismatches
from trainwitness.verification.cast import cast
from trainwitness.verification.committed import CommitmentCheck
from trainwitness.verification.conclude import conclude
from trainwitness.verification.data import check_data
from trainwitness.verification.exact import ExactVerification
from trainwitness.verification.initial import check_initial
from trainwitness.verification.model_file import check_model
from trainwitness.verification.policies.adaptive import Adaptive
from trainwitness.verification.policies.jumps import Jumps
from trainwitness.verification.policies.policy import named_policy
from trainwitness.verification.read_ahead import read_ahead
from trainwitness.verification.recompute import Recomputer
from trainwitness.verification.resolve import check_size, numerics_for, resolve_task
from trainwitness.verification.rows import DomainCheck, replaced_rows, row_problems
from trainwitness.verification.sampling import Sample, Sampling, plan
from trainwitness.verification.schedule import ScheduleCheck

OnStep = Callable[[StepError], None]
_SHOWN = 5


def verify(
    trace: Trace | Path | str,
    *,
    task: Task | TaskSpec | str | None = None,
    data: Path | None = None,
    threshold: Threshold | None = None,
    calibration: Calibration | None = None,
    policy: str = "extreme",
    allow_mismatch: bool = False,
    steps: tuple[int, int] | None = None,
    numerics: Numerics | None = None,
    model: Path | None = None,
    require: Sequence[PropertyName] = ("reproduced",),
    commitment: Committed | None = None,
    sampling: Sampling | None = None,
    one_by_one: bool = False,
    on_step: OnStep | None = None,
) -> Verdict:
    """Computes every step of `trace` again and compares the whole State.

    `task` defaults to the built-in task the trace names; for any other the verifier must name (or bring) it. Without
    a threshold only errors of exactly 0 are accepted; a `calibration` made on this machine gives one by `policy` (see
    `policies/`), and one made for something else is refused, or with `allow_mismatch` leaves the answer INCONCLUSIVE.
    `numerics` defaults to the trace's own, on CPU if its device
    is not here. With a `commitment`, every row must be in it; `sampling` recomputes a random sample of the steps.
    ACCEPT needs `reproduced` and every property in `require`, none refuted, all steps, a sealed trace.
    Given a threshold, steps of very small models are computed many at once, unless told `one_by_one` or `exact` is
    required.

    >>> verify("run.trace", threshold=Threshold(value=1e-6)).verdict             # doctest: +SKIP
    'ACCEPT'
    """
    for name in require:
        if name not in PROPERTIES:
            raise UsageError(f"unknown property {name!r}", hint=f"properties: {', '.join(PROPERTIES)}")
    trace = trace if isinstance(trace, Trace) else Trace.open(trace)
    task = resolve_task(task, trace.manifest, data)
    check_size(task, trace)
    stepper = Stepper(task, numerics_for(trace.manifest, numerics))
    if isinstance(trace, ExactTrace):
        if calibration is not None or (threshold is not None and threshold.value):
            raise UsageError("a threshold for an exact trace", hint="its digests are equal or not: leave it out")
        if sampling is not None:
            raise UsageError(
                "a sample of an exact trace", hint="it is computed from checkpoint to checkpoint: --steps"
            )
        return ExactVerification(trace, stepper, steps or (0, trace.steps), commitment).run(model, require, on_step)
    mismatches: list[str] = []
    scale, jumps = None, None
    if calibration is not None:
        if threshold is not None:
            raise UsageError("a threshold and a calibration", hint="give one of them")
        mismatches = calibration_mismatches(calibration, task, stepper.numerics, trace.manifest)
        if mismatches and not allow_mismatch:
            raise TraceMismatch(
                f"the calibration does not fit: {mismatches[0]}",
                hint="calibrate again here, or use --allow-mismatch (the answer will be INCONCLUSIVE)",
            )
        chosen = named_policy(policy, calibration, trace.steps)
        threshold = chosen.threshold()
        if isinstance(chosen, Adaptive):
            scale = chosen.scale(task, stepper.numerics, stepper.state())
        if threshold.jumps is not None:
            jumps = Jumps(task, stepper.numerics, threshold.jumps)
    judge = Judge(threshold, trace.manifest.numerics.precision, stepper.numerics.precision)
    # Many steps at once differ by rounding from one by one, so only where a threshold allows that.
    many = not (one_by_one or threshold is None or scale is not None or "exact" in require)
    recompute = Recomputer(stepper, trace.manifest.numerics.precision, judge, many=many, scale=scale, jumps=jumps)
    if sampling is not None and steps not in (None, (0, trace.steps)):
        raise UsageError("a range of steps and a sample", hint="give one of them")
    sample = None if sampling is None else plan(trace, sampling)
    run = _Verification(
        trace, task, stepper, judge, recompute, steps or (0, trace.steps), mismatches, commitment, sample
    )
    verdict = run.run(model, require, on_step)
    return verdict if sample is None else verdict.model_copy(update={"sample": sample.facts()})


@dataclass
class _Verification:
    trace: Trace
    task: Task
    stepper: Stepper
    judge: Judge
    recompute: Recomputer
    range: tuple[int, int]
    mismatches: list[str]
    committed: Committed | None = None
    sample: Sample | None = None
    errors: list[StepError] = field(default_factory=list)
    bad: list[StepError] = field(default_factory=list)
    replaced: int = 0

    def __post_init__(self) -> None:
        self.domain = DomainCheck(self.task.dataset)
        self.schedule = ScheduleCheck(self.task, self.trace.manifest, self.stepper.live.groups())

    @property
    def complete(self) -> bool:
        return self.range == (0, self.trace.steps)

    @property
    def threshold(self) -> Threshold | None:
        return self.judge.threshold

    def run(self, model: Path | None, require: Sequence[PropertyName], on_step: OnStep | None) -> Verdict:
        trace, manifest = self.trace, self.trace.manifest
        if manifest.seed != self.task.seed:
            raise TraceMismatch(f"the trace has seed {manifest.seed}, the task {self.task.seed}")
        properties: dict[PropertyName, Property] = {"data_matches": check_data(self.task.dataset, manifest)}
        own_root = properties["data_matches"].standing == "established"
        self.commitment = CommitmentCheck(self.committed, self.task.dataset, manifest, own_root=own_root)
        tree, final, last = Frontier(), None, None
        if trace.chunks:
            stored = trace.initial_state()
            tree.append(initial_leaf(stored.digest().hex()))
            expected = cast(self.stepper.state(), COMPUTE_DTYPE[manifest.numerics.precision])
            properties["initialised"] = check_initial(stored, expected, manifest, self.task)
        stop = None if self.complete else self.range[1]  # to the last byte, if everything is asked for
        size = self.stepper.live.view().nbytes
        segments = read_ahead(trace.segments(self.range[0], stop), self.stepper.numerics, size)
        recomputed: Iterable[tuple[Segment, StepError | None]] = self.recompute(segments, self._why_not)
        if self.sample is not None:
            recomputed = self.sample.recomputed(segments, self.recompute, self._why_not)
        for segment, error in recomputed:
            for leaf in segment.leaves:
                tree.append(leaf)
            if error is not None:
                self._note(segment, error, on_step)
            final, last = segment.after, segment.records[-1].state
        if self.replaced:
            why = f"{self.replaced} rows are carried by the trace and differ from the data set's"
            properties["data_matches"] = Property(standing="refuted", why=why)
        properties["scheduled"] = self.schedule.result(complete=self.complete)
        properties["data_committed"] = self.commitment.result(properties, complete=self.complete)
        if model is not None:
            names = self.stepper.live.model.state_dict().keys()
            shipped = final if self.complete and final else trace.final_state()
            properties["model_bound"] = check_model(model, shipped, names)
        properties |= self._reproduced()
        if self.complete and trace.seal:
            trace.check_seal(trace.steps, tree.root().hex(), last)
        return self._verdict(properties, require, tree)

    def _why_not(self, segment: Segment) -> list[str]:
        """Why a segment cannot be computed."""
        problems = []
        for record, batch in zip(segment.records, segment.batches, strict=True):
            if not self.schedule.step(record):
                problems.append("the task's schedule has no such step")
            problems += row_problems(batch, self.task.dataset)
            self.commitment.note(batch)
            self.replaced += len(replaced_rows(batch, self.task.dataset))
        return problems

    def _note(self, segment: Segment, error: StepError, on_step: OnStep | None) -> None:
        outside = [] if error.problems else [p for batch in segment.batches for p in self.domain(batch)]
        if outside:
            error = error.model_copy(update={"problems": outside, "exact": False})
        self.errors.append(error)
        if not self.judge(error):
            self.bad.append(error)
        if on_step:
            on_step(error)

    def _reproduced(self) -> dict[PropertyName, Property]:
        theirs, mine = (n.device.partition(":")[0] for n in (self.trace.manifest.numerics, self.stepper.numerics))
        if self.recompute.random and theirs != mine:
            why = f"random numbers drawn on {theirs} (dropout) cannot be drawn again on {mine}"
            return dict.fromkeys(("reproduced", "exact"), Property(standing="unknown", why=why))
        exact = all(error.exact for error in self.errors)
        hard = self._hard()
        if hard:
            return dict.fromkeys(("reproduced", "exact"), Property(standing="refuted", why=_describe(hard[0])))
        if not self.complete:
            why = f"only steps {self.range[0]}:{self.range[1]} of {self.trace.steps} were recomputed"
            return dict.fromkeys(("reproduced", "exact"), Property(standing="unknown", why=why))
        if self.sample is not None and (exact or (self.threshold is not None and not self.mismatches)):
            only = Property(standing="unknown", why="only a sample of the steps was recomputed")
            return {"reproduced": self.sample.reproduced(self.errors, self.stepper.live.view()), "exact": only}
        if exact:
            why = f"all {self.trace.steps} steps give the stored States bit for bit"
            return dict.fromkeys(("reproduced", "exact"), Property(standing="established", why=why))
        largest = max(error.l2 for error in self.errors)
        inexact = Property(standing="refuted", why=f"errors up to {largest:.2e} (l2)")
        if self.recompute.together:
            why = "many steps were computed at once, which rounds otherwise; computing them one by one would tell"
            inexact = Property(standing="unknown", why=why)
        if self.threshold is None or self.mismatches:
            why = f"errors up to {largest:.2e} (l2) were found and no threshold that fits was given to judge them by"
            return {"reproduced": Property(standing="unknown", why=why), "exact": inexact}
        ties = sum(error.rest_of_jump is not None for error in self.errors)
        but = f", but for {ties} steps whose near ties explain it" if ties else ""
        limit = f"{self.threshold.value:.2e} ({self.threshold.origin})"
        why = f"no error is above {limit}{but}; the largest is {largest:.2e}"
        return {"reproduced": Property(standing="established", why=why), "exact": inexact}

    def _hard(self) -> list[StepError]:
        """What no further knowledge of the noise would excuse."""
        return [e for e in self.bad if e.problems or (self.threshold is not None and not self.mismatches)]

    def _verdict(
        self, properties: dict[PropertyName, Property], require: Sequence[PropertyName], tree: Frontier
    ) -> Verdict:
        return conclude(
            self.trace,
            self.task,
            self.stepper.numerics,
            properties=properties,
            require=require,
            errors=self.errors,
            recomputed=self.range,
            step_root=tree.root().hex(),
            threshold=self.threshold,
            more_reasons=[_describe(error) for error in self._hard()[1:_SHOWN]],
            more_doubts=[f"the calibration does not fit: {mismatch}" for mismatch in self.mismatches],
        )


def _describe(error: StepError) -> str:
    if error.problems:
        return f"step {error.step}: {error.problems[0]}"
    return (
        f"step {error.step}: l2 error {error.l2:.2e} ({error.relative:.1e} of the update), "
        f"optimiser {error.optimizer:.1e}, buffers {error.buffers:.1e} of their size"
    )

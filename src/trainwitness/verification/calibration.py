"""Calibration: how far honest recomputations differ on this machine, by source of noise and stage of training."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from trainwitness.core.environment import Environment, current_environment
from trainwitness.core.errors import StorageError, TraceDamaged, UsageError
from trainwitness.core.numerics import Numerics
from trainwitness.tasks.task import Task
from trainwitness.trace.record import with_threads
from trainwitness.training.randomness import drew_random_numbers
from trainwitness.training.stepper import Stepper
from trainwitness.verification.cast import cast
from trainwitness.verification.distance import Ruler, update_size
from trainwitness.verification.noise import NOT_HARDWARE, Probe, Probes, variations

STAGES = 5
MAKE_ONE = "make one with trainwitness calibrate TASK --out FILE"
_NOT_BENIGN = 0.3
"""A variation that moves the result by this share of the update computes something else."""
Part = Literal["l2", "buffers", "optimizer"]
Array = npt.NDArray[np.float64]


class Sample(NamedTuple):
    """The error of one honest recomputation of one step, and the size of the step's update."""

    stage: int
    step: int
    source: str
    l2: float
    buffers: float
    optimizer: float
    update: float


class Spread(BaseModel):
    """A distribution of l2 errors."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    count: int
    largest: float
    median: float
    quantile_90: float
    quantile_99: float
    mean: float
    variance: float
    exactly_zero: int


class Source(BaseModel):
    """What one source of noise did, in all and in each stage of training (None where it was not measured)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    all: Spread
    stages: list[Spread | None]


class Calibration(BaseModel):
    """Honest errors of one task under one Numerics on one machine."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    task: dict[str, Any] | None
    numerics: Numerics
    environment: Environment
    repeats: int
    steps: int
    horizon: int
    """Steps that were trained; the sampled ones lie in stages spread over them."""
    stages: list[tuple[int, int]]
    eps_repr: float = Field(ge=0)
    """The largest l2 error of all sources that are the same arithmetic elsewhere (paper 000, section 4.1)."""
    sources: dict[str, Source]
    unavailable: dict[str, str]
    seconds: float
    samples: list[Sample]

    def errors(self, part: Part = "l2", *, without: Collection[str] = NOT_HARDWARE) -> dict[str, Array]:
        """The errors of one part of the State, by source."""
        found: dict[str, list[float]] = {}
        for sample in self.samples:
            if sample.source not in without:
                found.setdefault(sample.source, []).append(getattr(sample, part))
        return {source: np.array(values) for source, values in found.items()}


def calibrate(
    task: Task,
    *,
    numerics: Numerics | None = None,
    repeats: int = 10,
    steps: int = 50,
    horizon: int | None = None,
    only: str | None = None,
    on_step: Callable[[int], None] | None = None,
) -> Calibration:
    """Trains `task` itself and computes sampled steps again, `repeats` times each, varying every source of noise.

    `steps` are sampled in stages of consecutive steps spread over a training of `horizon` (default `steps`, all of
    them sampled); `only` names one source of noise for all repeats. Each recomputation starts from the run's
    parameters and keeps its own optimiser state, as verification does.

    >>> calibrate(build_task("lenet-digits"), steps=20).eps_repr < 1e-6          # doctest: +SKIP
    True
    """
    horizon = steps if horizon is None else horizon
    if repeats < 1 or not 1 <= steps <= horizon:
        raise UsageError(f"{repeats} repeats of {steps} steps of {horizon}", hint="sample at least one of the steps")
    numerics = with_threads(numerics or Numerics())
    if numerics.precision == "exact":
        raise UsageError("exact arithmetic has no noise to calibrate", hint="verify without a threshold")
    run = _Run(task, numerics, repeats, only)
    stages = _stages(steps, horizon)
    started = time.perf_counter()
    for first, behind in stages:
        run.train(first, on_step)
        run.sample(behind, on_step)
    return run.result(steps, horizon, stages, time.perf_counter() - started)


def _stages(steps: int, horizon: int) -> list[tuple[int, int]]:
    count = min(STAGES, steps)
    sizes = [steps // count + (k < steps % count) for k in range(count)]
    slack, at, found = horizon - steps, 0, []
    for number, size in enumerate(sizes):
        at = sum(sizes[:number]) + (slack * number // (count - 1) if count > 1 else 0)
        found.append((at, at + size))
    return found


class _Run:
    def __init__(self, task: Task, numerics: Numerics, repeats: int, only: str | None) -> None:
        self.task, self.numerics, self.repeats = task, numerics, repeats
        self.stepper, self.at, self.stage = Stepper(task, numerics), 0, 0
        self.wanted = variations(task, numerics, repeats, only)
        self.samples: list[Sample] = []
        self.probes = Probes(task)

    def train(self, stop: int, on_step: Callable[[int], None] | None) -> None:
        for step in range(self.at, stop):
            self.stepper.run(self.task.schedule.batch(step))
            if on_step:
                on_step(1)
        self.at = max(self.at, stop)

    def sample(self, stop: int, on_step: Callable[[int], None] | None) -> None:
        beside = self.probes.make(next(self.wanted))
        first, count = self.at, stop - self.at
        state = self.stepper.state()
        for probe in beside:
            probe.start(state)
        for step in range(first, stop):
            batch = self.task.schedule.batch(step)
            self.stepper.run(batch)
            last = len(batch.rows) - 1
            if step == first and drew_random_numbers(self.task.seed, step, last, self.stepper.device):
                self._leave_out("order", "the step draws random numbers (dropout), by the place in the batch")
            after = self.stepper.live.view()
            update = update_size(state, after)
            if not math.isfinite(update):
                raise UsageError(f"the training diverged in step {step}", hint="choose a smaller learning rate")
            for probe in beside:
                if step - first < max(1, round(count * probe.variation.share)):
                    self._compare(probe, state, after, batch, update)
            state = self.stepper.state()
            if on_step:
                on_step(1)
        self.at, self.stage = stop, self.stage + 1

    def _compare(self, probe: Probe, before: Any, after: Any, batch: Any, update: float) -> None:
        source = probe.variation.source
        if source in self.probes.unavailable:
            return
        try:
            computed = probe.follow(before, [batch])
        except RuntimeError as error:
            if source != "deterministic":  # the one switch that is allowed to find no kernel
                raise
            self.probes.unavailable[source] = str(error).splitlines()[0]
            return
        # Rounding the result to the parameters' type is the same everywhere, so it is not noise.
        ruler = Ruler(self.numerics.precision, probe.variation.numerics.precision)
        found = ruler(after, cast(computed, self.stepper.dtype))
        if found.problems:
            raise UsageError(
                f"honest recomputations differ in more than rounding ({source}): {found.problems[0]}",
                hint="does the task draw random numbers outside PyTorch, or depend on the order of rows?",
            )
        if update and found.l2 > _NOT_BENIGN * update:
            self._leave_out(source, "changes the step itself, not its rounding")
            return
        self.samples.append(Sample(self.stage, batch.step, source, found.l2, found.buffers, found.optimizer, update))

    def _leave_out(self, source: str, why: str) -> None:
        self.probes.unavailable[source] = why
        self.samples = [sample for sample in self.samples if sample.source != source]

    def result(self, steps: int, horizon: int, stages: list[tuple[int, int]], seconds: float) -> Calibration:
        by_source: dict[str, list[Sample]] = {}
        for sample in self.samples:
            by_source.setdefault(sample.source, []).append(sample)
        same = [sample.l2 for sample in self.samples if sample.source not in NOT_HARDWARE]
        return Calibration(
            task=self.task.spec.model_dump() if self.task.spec else None,
            numerics=self.numerics,
            environment=current_environment(),
            repeats=self.repeats,
            steps=steps,
            horizon=horizon,
            stages=stages,
            eps_repr=max(same, default=0.0),
            sources={source: _source(found, len(stages)) for source, found in by_source.items()},
            unavailable=self.probes.unavailable,
            seconds=seconds,
            samples=self.samples,
        )


def _source(samples: Sequence[Sample], stages: int) -> Source:
    by_stage = [[s.l2 for s in samples if s.stage == stage] for stage in range(stages)]
    return Source(
        all=_spread([s.l2 for s in samples]), stages=[_spread(values) if values else None for values in by_stage]
    )


def _spread(values: Sequence[float]) -> Spread:
    array = np.array(values, np.float64)
    return Spread(
        count=len(array),
        largest=float(array.max()),
        median=float(np.median(array)),
        quantile_90=float(np.quantile(array, 0.9)),
        quantile_99=float(np.quantile(array, 0.99)),
        mean=float(array.mean()),
        variance=float(array.var()),
        exactly_zero=int((array == 0).sum()),
    )


def load_calibration(path: Path) -> Calibration:
    """Reads what `calibrate --out` wrote."""
    try:
        envelope = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(envelope, dict) or envelope.get("kind") != "calibrate":
            raise TraceDamaged(f"{path}: not a calibration", hint=MAKE_ONE)
        return Calibration.model_validate(envelope["result"])
    except OSError as error:
        raise StorageError(f"{path}: cannot be read: {error.strerror}", hint=MAKE_ONE) from error
    except (ValueError, KeyError) as error:
        what = error.errors()[0]["msg"] if isinstance(error, ValidationError) else error
        raise TraceDamaged(f"{path}: not a calibration: {what}", hint=MAKE_ONE) from error

"""Computing the steps of a trace again.

Each step starts from the parameters that the trace stores, and from buffers, optimiser state and scaler that the
verifier computed itself in the steps before. Those of the trace are compared and never used: whoever may choose them,
within any tolerance, can move the parameters (Adam divides by a number that a crafted State brings near zero).
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import torch

from trainwitness.core.errors import TraceMismatch
from trainwitness.core.numerics import Precision
from trainwitness.core.state import State
from trainwitness.core.verdict import MAX_SHARE, Judge, StepError
from trainwitness.trace.segments import Segment
from trainwitness.training.apply_numerics import COMPUTE_DTYPE
from trainwitness.training.randomness import drew_random_numbers
from trainwitness.training.stepper import Stepper
from trainwitness.training.vectorised import VectorisedSteps
from trainwitness.verification.cast import cast, rounding_of
from trainwitness.verification.distance import Ruler, update_size
from trainwitness.verification.policies.adaptive import StepScale
from trainwitness.verification.policies.jumps import Jumps

_AT_ONCE = 64

Check = Callable[[Segment], list[str]]
"""Why a segment cannot be computed; empty if it can."""


class Recomputer:
    """Recomputes consecutive segments with one Stepper, which must hold the task's initial State.

    `tolerated` says which errors are benign. After one that is not, the next step starts from the trace's State as a
    whole, so that one bad step is reported once. With `many`, steps of small models are computed together; whichever
    comes out too far is computed again by itself. With a `scale`, every step gets a limit of its own;
    with `jumps`, one above its limit passes if near ties explain it.
    """

    def __init__(
        self,
        stepper: Stepper,
        recorded: Precision,
        tolerated: Judge,
        *,
        many: bool = False,
        scale: StepScale | None = None,
        jumps: Jumps | None = None,
    ) -> None:
        self._stepper, self._tolerated, self._scale, self._jumps = stepper, tolerated, scale, jumps
        self._ruler, self._recorded = Ruler(recorded, stepper.numerics.precision), COMPUTE_DTYPE[recorded]
        self._vectorised = VectorisedSteps(stepper) if many and VectorisedSteps.supports(stepper) else None
        self._at: Mapping[str, torch.Tensor] | None = None
        """The stored tensors that the live model equals, bit for bit, if it does."""
        self.together = False
        """Whether any error is one of several steps computed at once."""
        self.random: bool | None = None
        """Whether the first step drew random numbers (dropout)."""

    def __call__(self, segments: Iterable[Segment], check: Check) -> Iterator[tuple[Segment, StepError]]:
        """Every segment with its error, in order."""
        waiting: list[Segment] = []
        first = True
        for segment in segments:
            problems = check(segment)
            if first and segment.records[0].step:
                self._begin_within(segment)
            if not problems and first:
                self._stepper.live.load_parameters(self._cast(segment.before))  # a mismatch here is of the whole task
            first = False
            alone = bool(problems) or not self._fits(segment)
            if alone or (waiting and segment.batches[0].size != waiting[0].batches[0].size):
                yield from self._together(waiting)
                waiting = []
            if problems:
                self._take(segment.after)
                yield segment, failed(segment, problems)
            elif alone:
                yield segment, self._judged(segment, self._one(segment))
            else:
                waiting.append(segment)
                if len(waiting) == _AT_ONCE:
                    yield from self._together(waiting)
                    waiting = []
        yield from self._together(waiting)

    def _fits(self, segment: Segment) -> bool:
        """Whether a segment may be one of many: a whole step from a State with just the expected tensors."""
        if self._vectorised is None or len(segment.records) != 1 or len(segment.records[0].rows) != 1:
            return False
        expected = {n: (t.shape, self._recorded) for n, t in self._stepper.live.model_tensors().items()}
        before = segment.before.tensors
        held = {n: (t.shape, t.dtype) for n, t in before.items() if not n.endswith("/momentum_buffer")}
        return expected == held

    def _together(self, segments: Sequence[Segment]) -> Iterator[tuple[Segment, StepError]]:
        """Several one-step segments at once (see `vectorised.py`), up to the first that is not tolerated."""
        while segments:
            computed = self._compute_many(segments)
            done = 0
            for segment, state in zip(segments, computed, strict=False):
                error = self._error(segment, state)
                if not self._tolerated(error):
                    break
                done, self.together = done + 1, True
                yield segment, error
            self._at = None
            if done:
                self._stepper.load(computed[done - 1])
            if done < len(segments):
                yield segments[done], self._judged(segments[done], self._one(segments[done]))
            segments = segments[done + 1 :]

    def _compute_many(self, segments: Sequence[Segment]) -> list[State]:
        before, batches = [self._cast(s.before) for s in segments], [s.batches[0] for s in segments]
        if self._vectorised is None:
            return []
        held = {n: t for n, t in self._stepper.live.tensors().items() if n.startswith("optim/")}
        try:
            return self._vectorised(before, batches, held)
        except (RuntimeError, ValueError, IndexError):  # a loss or model that torch.func cannot transform
            self._vectorised = None
            return []

    def _one(self, segment: Segment) -> StepError:
        """The error of a segment whose rows were found to exist, through the step function."""
        try:
            if segment.before.tensors is not self._at:
                self._stepper.live.load_parameters(self._cast(segment.before))
        except TraceMismatch as mismatch:
            return failed(segment, [str(mismatch)])
        start = self._stepper.state() if self._jumps else None
        problems = self._run(segment)
        if problems:
            return failed(segment, problems)
        computed = self._stepper.live.view()
        error = self._error(segment, computed)
        if self._scale is not None:
            limit = self._scale.limit(segment.before, segment.batches, computed)
            error = error.model_copy(update={"limit": limit})
        if self._jumps and start and not error.problems and not self._tolerated(error):
            return self._jumped(self._jumps, segment, error, start, computed)
        return error

    def _jumped(self, jumps: Jumps, segment: Segment, error: StepError, start: State, computed: State) -> StepError:
        """The error with what near ties explain of it taken off; the run goes on with ties fallen as in the trace."""
        limit = self._tolerated.limit(error)
        explained = jumps.explain(start, segment.batches, computed, segment.after, limit)
        if explained is None:
            return error
        rest = self._ruler(segment.after, explained)
        jumped = error.model_copy(
            update={"rest_of_jump": rest.l2, "buffers": rest.buffers, "optimizer": rest.optimizer}
        )
        if not self._tolerated(jumped):
            return error
        self._stepper.load(explained)
        return jumped

    def _run(self, segment: Segment) -> list[str]:
        stepper, last = self._stepper, segment.batches[-1]
        try:
            for batch in segment.batches:
                stepper.run(batch)
        except torch.OutOfMemoryError:
            raise
        except Exception as error:
            # The trace is to blame if the task's own batch can be computed where the trace's cannot.
            stepper.run(stepper.task.schedule.batch(last.step))
            return [f"the batch cannot be computed: {type(error).__name__}: {error}"]
        if self.random is None:
            self.random = drew_random_numbers(stepper.task.seed, last.step, len(last.rows) - 1, stepper.device)
        return []

    def _error(self, segment: Segment, computed: State) -> StepError:
        found = self._ruler(segment.after, computed)
        self._at = segment.after.tensors if found.exact else None
        update = 0.0 if found.exact else update_size(segment.before, segment.after)
        rounding, rest = (
            rounding_of(computed, segment.after) if self._stepper.dtype == torch.float64 else (None, None)
        )
        return StepError(
            step=segment.records[-1].step,
            l2=found.l2,
            linf=found.linf,
            relative=found.l2 / update if update else (0.0 if found.l2 == 0 else math.inf),
            buffers=found.buffers,
            optimizer=found.optimizer,
            rounding=rounding,
            rest=rest,
            problems=found.problems,
            exact=found.exact,
        )

    def _judged(self, segment: Segment, error: StepError) -> StepError:
        """Goes on from the trace's own State where the step was not what it claims to be."""
        large = max(error.relative, error.buffers, error.optimizer) > MAX_SHARE or bool(error.problems)
        if large and not self._tolerated(error):
            self._take(segment.after)
        return error

    def _take(self, state: State) -> None:
        """Everything from the trace's State, if it has just the tensors that belong there."""
        self._at = None
        with contextlib.suppress(TraceMismatch):
            self._stepper.live.load_alike(self._own(state))
        self._start_scale()

    def _start_scale(self) -> None:
        if self._scale is not None:
            self._scale.start(self._stepper.live.view())

    def _own(self, state: State) -> State:
        own = self._cast(state)
        if self._stepper.live.scaler is not None:
            return own
        return State({n: t for n, t in own.tensors.items() if not n.startswith("scaler/")})

    def _begin_within(self, segment: Segment) -> None:
        """Verifying from the middle: there is nothing before, so the trace's State is taken as it is."""
        stepper = self._stepper
        stepper.run(stepper.task.schedule.batch(0))  # so that the optimiser has its tensors
        stepper.live.load_alike(self._own(segment.before))
        self._start_scale()

    def _cast(self, state: State) -> State:
        return state if self._recorded == self._stepper.dtype else cast(state, self._stepper.dtype)


def failed(segment: Segment, problems: list[str]) -> StepError:
    """The error of a segment that cannot be computed."""
    step = segment.records[-1].step
    return StepError(step=step, l2=math.inf, linf=math.inf, relative=math.inf, problems=problems)

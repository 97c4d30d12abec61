"""Computing the steps of a trace again, one segment at a time; reading runs ahead in a thread of its own."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import torch

from trainwitness.core.batch import Batch
from trainwitness.core.errors import TraceMismatch
from trainwitness.core.state import State
from trainwitness.core.verdict import StepError
from trainwitness.trace.reader import Segment
from trainwitness.training.randomness import drew_random_numbers
from trainwitness.training.stepper import Stepper
from trainwitness.training.vectorised import VectorisedSteps
from trainwitness.verification.cast import cast, rounding_of
from trainwitness.verification.distance import Distance, distance, update_size

T = TypeVar("T")


@dataclass(frozen=True)
class Recomputed:
    """A segment's error, and the size of its update (to judge buffers and optimiser state by)."""

    error: StepError
    update: float


class Recomputer:
    """Recomputes segments with one Stepper."""

    def __init__(self, stepper: Stepper) -> None:
        self._stepper = stepper
        self._vectorised = VectorisedSteps(stepper)
        self.random: bool | None = None
        """Whether the first step drew random numbers (dropout)."""

    def __call__(self, segment: Segment, batches: tuple[Batch, ...]) -> Recomputed:
        """The error of a segment whose rows were found to exist."""
        return self._compared(segment, self._compute(segment.before, batches))

    def _compared(self, segment: Segment, computed: State) -> Recomputed:
        found = distance(segment.after, computed)
        exact = not (found.l2 or found.buffers or found.optimizer or found.problems)
        update = 0.0 if exact else update_size(segment.before, segment.after)
        split: tuple[float | None, float | None] = (None, None)
        if self._stepper.dtype == torch.float64:
            split = rounding_of(computed, segment.after)
        return Recomputed(_step_error(segment, found, update, split), update)

    def many(self, segments: Sequence[Segment]) -> list[Recomputed]:
        """The errors of several one-step segments computed at once (see `vectorised.py`)."""
        batches = [segment.batches[0] for segment in segments]
        before = [cast(segment.before, self._stepper.dtype) for segment in segments]
        computed = self._vectorised(before, batches)
        return [self._compared(segment, state) for segment, state in zip(segments, computed, strict=True)]

    def fits(self, segment: Segment) -> bool:
        """Whether a segment may be one of many: a whole step whose State has just the expected tensors."""
        if len(segment.records) != 1 or len(segment.records[0].rows) != 1:
            return False
        expected = {n: t.shape for n, t in self._stepper.live.model_tensors().items()}
        held = {n: t.shape for n, t in segment.before.tensors.items() if not n.endswith("/momentum_buffer")}
        return expected == held

    def _compute(self, before: State, batches: tuple[Batch, ...]) -> State:
        try:
            self._stepper.load(cast(before, self._stepper.dtype))
        except TraceMismatch:
            raise
        except (RuntimeError, KeyError, ValueError, TypeError) as error:
            raise TraceMismatch(
                f"step {batches[0].step}: the State does not fit the task's optimiser: {error}",
                hint="is this the task, with the same optimiser, that the trace was recorded with?",
            ) from error
        for batch in batches:
            self._stepper.run(batch)
        if self.random is None:
            last, stepper = batches[-1], self._stepper
            self.random = drew_random_numbers(stepper.task.seed, last.step, len(last.rows) - 1, stepper.device)
        return self._stepper.state()


def _step_error(
    segment: Segment, found: Distance, update: float, split: tuple[float | None, float | None]
) -> StepError:
    return StepError(
        step=segment.records[-1].step,
        l2=found.l2,
        linf=found.linf,
        relative=found.l2 / update if update else (0.0 if found.l2 == 0 else float("inf")),
        buffers=found.buffers,
        optimizer=found.optimizer,
        rounding=split[0],
        rest=split[1],
        problems=found.problems,
    )


def read_ahead(items: Iterable[T], depth: int = 2) -> Iterator[T]:
    """The same items, produced in another thread up to `depth` ahead."""
    ready: queue.Queue[tuple[str, object]] = queue.Queue(maxsize=depth)
    stopped = threading.Event()

    def put(kind: str, value: object) -> bool:
        while not stopped.is_set():
            try:
                ready.put((kind, value), timeout=0.1)
            except queue.Full:
                continue
            return True
        return False

    def produce() -> None:
        try:
            for item in items:
                if not put("item", item):
                    return
            put("end", None)
        except BaseException as error:
            put("error", error)

    threading.Thread(target=produce, name="trainwitness-reader", daemon=True).start()
    try:
        while True:
            kind, value = ready.get()
            if kind == "end":
                return
            if kind == "error":
                raise value  # type: ignore[misc]
            yield value  # type: ignore[misc]
    finally:
        stopped.set()

"""Verifying an exact trace: every step is computed and its 32 bytes compared. Nothing is tolerated."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from trainwitness.commitments.commitment import Committed
from trainwitness.commitments.merkle import Frontier
from trainwitness.core.batch import Batch
from trainwitness.core.errors import TraceMismatch
from trainwitness.core.state import State
from trainwitness.core.verdict import Property, PropertyName, StepError, Verdict
from trainwitness.trace.exact_reader import ExactStep, ExactTrace
from trainwitness.trace.format import StepRecord, initial_leaf
from trainwitness.training.exact.witness import ExactOverflow
from trainwitness.training.stepper import Stepper
from trainwitness.verification.committed import CommitmentCheck
from trainwitness.verification.conclude import conclude
from trainwitness.verification.data import check_data
from trainwitness.verification.initial import check_initial
from trainwitness.verification.model_file import check_model
from trainwitness.verification.rows import DomainCheck, replaced_rows, row_problems
from trainwitness.verification.schedule import ScheduleCheck

OnStep = Callable[[StepError], None]


class ExactVerification:
    """Recomputes steps `wanted` of a trace, from the nearest checkpoint before them.

    After a step that does not come out there is nothing to go on from but the next stored checkpoint.
    """

    def __init__(
        self, trace: ExactTrace, stepper: Stepper, wanted: tuple[int, int], committed: Committed | None = None
    ) -> None:
        self.trace, self.stepper, self.wanted = trace, stepper, wanted
        self.task = stepper.task
        self.domain = DomainCheck(self.task.dataset)
        self.schedule = ScheduleCheck(self.task, trace.manifest, stepper.live.groups())
        self.errors: list[StepError] = []
        self.replaced = 0
        self.data = check_data(self.task.dataset, trace.manifest)
        own_root = self.data.standing == "established"
        self.commitment = CommitmentCheck(committed, self.task.dataset, trace.manifest, own_root=own_root)
        if trace.manifest.seed != self.task.seed:
            raise TraceMismatch(f"the trace has seed {trace.manifest.seed}, the task {self.task.seed}")

    @property
    def complete(self) -> bool:
        return self.wanted == (0, self.trace.steps)

    def run(self, model: Path | None, require: Sequence[PropertyName], on_step: OnStep | None) -> Verdict:
        trace, stepper = self.trace, self.stepper
        properties: dict[PropertyName, Property] = {"data_matches": self.data}
        if trace.chunks:
            properties["initialised"] = self._initialised()
        self._all(on_step)
        whole = self.complete and not self._bad()
        if self.replaced:
            why = f"{self.replaced} rows are carried by the trace and differ from the data set's"
            properties["data_matches"] = Property(standing="refuted", why=why)
        properties["scheduled"] = self.schedule.result(complete=self.complete)
        properties["data_committed"] = self.commitment.result(properties, complete=self.complete)
        if model is not None:
            unknown = Property(standing="unknown", why="the final State was not reached")
            names = stepper.live.model.state_dict().keys()
            at_end = not self._bad() and self.wanted[1] == trace.steps
            properties["model_bound"] = check_model(model, stepper.state(), names) if at_end else unknown
        properties |= dict.fromkeys(("reproduced", "exact"), self._reproduced())
        root = self._root()
        if self.complete and trace.seal:
            final = stepper.live.view().digest().hex() if whole else trace.seal.final_state
            trace.check_seal(trace.steps, root, final)
        return conclude(
            trace,
            self.task,
            stepper.numerics,
            properties=properties,
            require=require,
            errors=self.errors,
            recomputed=self.wanted,
            step_root=root,
            more_reasons=[f"step {error.step}: {error.problems[0]}" for error in self._bad()[1:5]],
        )

    def _initialised(self) -> Property:
        """By the State the trace stores, or where it stores none by its digest."""
        trace, own = self.trace, self.stepper.state()
        start, stored = trace.checkpoint(0)
        if stored is not None and start == 0:
            return check_initial(stored, own, trace.manifest, self.task)
        if own.digest().hex() != trace.initial_digest():
            return Property(standing="refuted", why=f"seed {trace.manifest.seed} does not give the initial State")
        return Property(
            standing="established", why=f"seed {trace.manifest.seed} gives the initial parameters bit for bit"
        )

    def _all(self, on_step: OnStep | None) -> None:
        at: int | None = self.wanted[0]
        while at is not None and at < self.wanted[1]:
            start, state = self.trace.checkpoint(at)
            self._place(start, state)
            at = self._stretch(start, on_step)

    def _place(self, step: int, state: State | None) -> None:
        """Puts the stepper before `step`: at a stored State, or where it began."""
        if state is None:
            return  # only the first stretch begins so, with a fresh stepper
        if step:
            self.stepper.run(self.task.schedule.batch(0))  # so that the optimiser has its tensors
        self.stepper.live.load_alike(state) if step else self.stepper.load(state)

    def _stretch(self, start: int, on_step: OnStep | None) -> int | None:
        """Computes from `start`; returns where to go on after a step that did not come out, if anywhere."""
        stop = None if self.complete else self.wanted[1]
        for stored in self.trace.exact_steps(start, stop):
            error = self._one(stored)
            if stored.step >= self.wanted[0] or error.problems:
                self.errors.append(error)
                if on_step:
                    on_step(error)
            if not error.exact:
                return self.trace.next_checkpoint(stored.step)
        return None

    def _one(self, stored: ExactStep) -> StepError:
        if stored.before is not None and self.stepper.live.view().digest().hex() != stored.before:
            return _failed(stored.step, ["the State before it is not the one whose digest the trace states"])
        problems = self._row_problems(stored)
        if not problems:
            problems = self._computed(stored, stored.batch or self.task.schedule.batch(stored.step))
        if problems:
            return _failed(stored.step, problems)
        return StepError(step=stored.step, l2=0.0, linf=0.0, relative=0.0, exact=True)

    def _row_problems(self, stored: ExactStep) -> list[str]:
        try:
            batch = stored.batch or self.task.schedule.batch(stored.step)
            rate = self.task.schedule.learning_rate(stored.step)
        except LookupError:
            return ["the task's schedule has no such step"]
        settings = [{**group, "lr": rate} for group in self.stepper.live.groups()]
        rows = [list(micro) for micro in batch.rows]
        self.schedule.step(StepRecord(step=stored.step, epoch=batch.epoch, rows=rows, groups=settings, state=None))
        self.commitment.note(batch)
        self.replaced += len(replaced_rows(batch, self.task.dataset))
        return row_problems(batch, self.task.dataset) or self.domain(batch)

    def _computed(self, stored: ExactStep, batch: Batch) -> list[str]:
        try:
            self.stepper.run(batch)
        except (ExactOverflow, torch.OutOfMemoryError) as error:
            if isinstance(error, torch.OutOfMemoryError):
                raise
            return [str(error)]
        except Exception as error:
            # The trace is to blame if the task's own batch can be computed where the trace's cannot.
            self.stepper.run(self.task.schedule.batch(stored.step))
            return [f"the batch cannot be computed: {type(error).__name__}: {error}"]
        if self.stepper.leaf(stored.step) != stored.leaf:
            return ["its digest is not the one the trace states: other data, another State or other arithmetic"]
        return []

    def _bad(self) -> list[StepError]:
        return [error for error in self.errors if not error.exact]

    def _reproduced(self) -> Property:
        bad = self._bad()
        if bad:
            return Property(standing="refuted", why=f"step {bad[0].step}: {bad[0].problems[0]}")
        if not self.complete:
            why = f"only steps {self.wanted[0]}:{self.wanted[1]} of {self.trace.steps} were recomputed"
            return Property(standing="unknown", why=why)
        why = f"all {self.trace.steps} steps have the stated digests of State, outputs and gradient sums"
        return Property(standing="established", why=why)

    def _root(self) -> str:
        tree = Frontier()
        if self.trace.chunks and self.complete:
            tree.append(initial_leaf(self.trace.initial_digest()))
            for stored in self.trace.exact_steps():
                tree.append(stored.leaf)
        return tree.root().hex()


def _failed(step: int, problems: list[str]) -> StepError:
    return StepError(step=step, l2=math.inf, linf=math.inf, relative=math.inf, problems=problems)

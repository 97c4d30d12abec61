"""Recorder: the few lines that make anyone's training loop leave a trace."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader

from trainwitness.core.environment import current_environment
from trainwitness.core.errors import NotCapturable, StorageError, TraceMismatch, UsageError
from trainwitness.core.numerics import Numerics
from trainwitness.tasks.task import Initialisation, TaskSpec
from trainwitness.trace import capturable
from trainwitness.trace import format as f
from trainwitness.trace.layout import Buffer
from trainwitness.trace.open_step import OpenStep
from trainwitness.trace.pipeline import Pipeline
from trainwitness.trace.plain import from_json
from trainwitness.trace.position import Position
from trainwitness.trace.resuming import check_same_numerics, check_same_run, interrupted
from trainwitness.trace.rows import data_facts, indexed_loader, row_numbers
from trainwitness.trace.writer import FolderLock, TraceWriter, refuse_used_folder
from trainwitness.training.apply_numerics import autocast_precision, current_numerics
from trainwitness.training.live import Live
from trainwitness.training.randomness import seed_epoch, seed_micro_batch


class Recorder:
    """Records a training loop into a trace folder.

        recorder = Recorder("run.trace", model=model, optimizer=optimizer)
        for epoch in range(recorder.epoch, 10):
            for inputs, labels in recorder.loader(loader):
                ...                                   # forward, backward, optimizer.step() as ever
        recorder.close()

    A step ends with the optimiser's step; batches taken from the loader before it are its micro-batches. The
    State is copied when the next batch is asked for, so a loss scaler's update and a scheduler's step are in it.
    The recorder seeds PyTorch for every micro-batch and epoch from `seed`, so dropout and the loader's order can
    be recomputed. What could never be recomputed is refused at the first step, as NotCapturable.

    - `scaler`, `scheduler`: pass them if the loop uses them.
    - `resume=True` goes on with an interrupted recording: model, optimiser, scaler and scheduler are set to the
      last recorded step, `epoch` says where to go on, and the loader leaves out what was already used.
    - As a context manager it closes itself, leaving the trace unsealed if the block raised.
    """

    def __init__(
        self,
        path: Path | str,
        *,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        scaler: torch.amp.GradScaler | None = None,
        scheduler: torch.optim.lr_scheduler.LRScheduler | None = None,
        seed: int = 0,
        task: TaskSpec | None = None,
        numerics: Numerics | None = None,
        data: f.DataFacts | None = None,
        initialisation: Initialisation | None = None,
        order: str = "loader",
        checkpoint_every: int = 1,
        chunk_steps: int = f.CHUNK_STEPS,
        resume: bool = False,
    ) -> None:
        if checkpoint_every < 1 or chunk_steps < 1:
            raise UsageError("checkpoint_every and chunk_steps must be at least 1")
        capturable.check_model(model)
        self.path, self.seed = Path(path), seed
        self.steps = 0
        """Steps recorded so far."""
        self._position = Position()
        self._live = Live(model, optimizer, scaler)
        self._scheduler = scheduler
        self._facts: dict[str, Any] = {
            "task": task,
            "initialisation": initialisation or "unstated",
            "order": order,
            "checkpoint_every": checkpoint_every,
            "chunk_steps": chunk_steps,
        }
        self._data = data
        self._dataset: object | None = None
        self._numerics, self._precision = numerics, capturable.parameter_precision(model)
        self._open = OpenStep(0)
        self._iterating = self._closed = self._before_first_forward = False
        self._scale = self._scaler_state()
        self._guard = capturable.OutsideChanges(self._live)
        self._writer: TraceWriter | None = None
        self._pipeline: Pipeline | None = None
        self._initial: Buffer | None = None
        self._lock = FolderLock(self.path)
        try:
            self._resume() if resume else refuse_used_folder(self.path)
        except BaseException:
            self._lock.release()
            raise
        self._hooks = [
            model.register_forward_pre_hook(self._before_forward),
            optimizer.register_step_pre_hook(self._before_step),
            optimizer.register_step_post_hook(self._after_step),
        ]

    @property
    def epoch(self) -> int:
        """The epoch to go on with: 0, or where an interrupted recording stopped."""
        return self._position.epoch

    # ------------------------------------------------------------------ what the loop calls

    def loader(self, loader: DataLoader[Any]) -> Iterator[Any]:
        """Yields the loader's batches and notes which rows make each. One call is one epoch."""
        self._check_open()
        self._use_dataset(loader)
        if self._iterating:  # the loop before this one was left early
            self._position.start(self.epoch + 1)
        self._iterating = True
        skip = self._position.batches
        made, skipping = indexed_loader(loader, skip)
        sampler_generator = getattr(loader.sampler, "generator", None)
        if hasattr(loader.sampler, "set_epoch"):
            loader.sampler.set_epoch(self.epoch)
        seed_epoch(self.seed, self.epoch, loader.generator, sampler_generator)
        for number, (indices, batch) in enumerate(made):
            rows = row_numbers(indices)
            if number == 0:
                self._position.check_skipped(skipping.skipped)
            if self.steps == 0 and number == 0:
                capturable.check_rows(loader, indices, rows, batch)
            self.batch(rows)
            self._position.note(rows)
            yield batch
        self._iterating = False
        self._position.start(self.epoch + 1)

    def batch(self, rows: Sequence[int], *, epoch: int | None = None) -> None:
        """Says which rows the next micro-batch is made of. `loader` does this by itself."""
        self._check_open()
        if epoch is not None and epoch != self.epoch:
            self._position.start(epoch)
        self._end_step()
        if self._writer is None and self._initial is None:
            self._initial = Buffer.of(self._live.tensors())
            self._guard.note()
        self._open.announce(rows, self.epoch)
        self._before_first_forward = len(self._open.rows) == 1
        seed_micro_batch(self.seed, self.steps, len(self._open.rows) - 1)

    def close(self, *, seal: bool = True) -> None:
        """Writes what is left; `seal=False` leaves the trace unsealed, to be resumed."""
        if self._closed:
            return
        self._closed = True
        try:
            self._hand_over_the_rest()
            if seal and self._writer is None:
                raise NotCapturable(
                    "no step was recorded: the optimiser's step() was never seen",
                    hint="take batches from recorder.loader(...); a compiled training step cannot be recorded",
                )
            if self._writer is not None:
                self._writer.seal() if seal else self._writer.flush()
        finally:
            if self._writer is not None:
                with contextlib.suppress(StorageError):  # something else went wrong first, and is being raised
                    self._writer.flush()
            for hook in self._hooks:
                hook.remove()
            if self._writer is not None:
                self._writer.abandon()
            self._lock.release()

    def _hand_over_the_rest(self) -> None:
        """Ends the last step and waits for the writer; what it has by then stays, whatever is raised."""
        try:
            self._end_step(last=True)
            if self._pipeline is not None and not self._guard.changed():
                self._pipeline.submit(None, self._live.tensors())  # the last step's State, if it was not kept
        finally:
            if self._pipeline is not None:
                self._pipeline.finish()

    def __enter__(self) -> Recorder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
            return
        try:
            self.close(seal=False)
        except (StorageError, NotCapturable):
            if not isinstance(error, (StorageError, NotCapturable)):
                raise

    # ------------------------------------------------------------------ what PyTorch calls

    def _before_forward(self, _module: nn.Module, _inputs: Any) -> None:
        """Notes the precision, and looks whether the model was written to since the step before."""
        if self._before_first_forward:
            self._before_first_forward = False
            self._guard.check(self.steps)
        if self._pipeline is not None:
            return
        device = next(self._live.model.parameters()).device.type
        self._precision = autocast_precision(device) or self._precision

    def _before_step(self, _optimizer: Any, _args: Any, _kwargs: Any) -> None:
        capturable.check_not_compiling()
        self._open.before_update(self._live)

    def _after_step(self, _optimizer: Any, _args: Any, _kwargs: Any) -> None:
        self._open.stepped = True
        self._guard.note()

    # ------------------------------------------------------------------ steps

    def _end_step(self, *, last: bool = False) -> None:
        """Records the step that has ended, if one has."""
        scale = self._scaler_state()
        step = self._open
        skipped_by_scaler = not step.stepped and bool(step.rows) and scale != self._scale
        if not step.stepped and not skipped_by_scaler:
            return
        if self._pipeline is None:
            self._begin()
        assert self._pipeline is not None
        if not skipped_by_scaler:
            self._guard.check(self.steps)
        record = step.record(self._live, self._scheduler, self.epoch)
        kept = last or (self.steps + 1) % self._facts["checkpoint_every"] == 0
        tensors = self._live.tensors()
        if skipped_by_scaler:
            self._guard.note()
        # Before the step is handed over, so that an interruption here cannot hand it over twice.
        self.steps += 1
        self._scale, self._open = scale, OpenStep(self.steps)
        self._pipeline.submit(record, tensors if kept else None)

    def _begin(self) -> None:
        """The first step is over: everything the manifest states is known."""
        parameters = list(self._live.model.parameters())
        numerics = self._numerics or current_numerics(parameters[0].device, self._precision)
        if self._writer is not None:
            check_same_numerics(self._writer.manifest.numerics, numerics)
        else:
            assert self._initial is not None
            if self._data is None:
                raise NotCapturable(
                    "the recorder does not know the data set", hint="use recorder.loader(...), or pass data=..."
                )
            manifest = f.Manifest(
                model=type(self._live.model).__name__,
                parameters=sum(parameter.numel() for parameter in parameters),
                optimizer=type(self._live.optimizer).__name__,
                numerics=numerics,
                environment=current_environment(code=True),
                seed=self.seed,
                data=self._data,
                **self._facts,
            )
            self._writer = TraceWriter.create(self.path, manifest, self._initial)
            self._initial = None
        self._pipeline = Pipeline(self._writer)

    def _scaler_state(self) -> dict[str, Any] | None:
        return self._live.scaler.state_dict() if self._live.scaler is not None else None

    # ------------------------------------------------------------------ epochs and rows

    def _use_dataset(self, loader: DataLoader[Any]) -> None:
        capturable.check_loader(loader)
        if self._dataset is None:
            facts = self._data or data_facts(loader.dataset)
            if self._writer is not None and facts.root != self._writer.manifest.data.root:
                raise TraceMismatch("the loader's data set is not the one this trace was recorded with")
            self._data, self._dataset = facts, loader.dataset
        elif self._dataset is not loader.dataset:
            raise NotCapturable("a second data set in one recording", hint="join them with ConcatDataset")

    # ------------------------------------------------------------------ starting and resuming

    def _check_open(self) -> None:
        if self._closed:
            raise UsageError("this recorder is closed")

    def _resume(self) -> None:
        trace = interrupted(self.path)
        if trace is None:
            return
        check_same_run(
            trace, self._live, task=self._facts["task"], seed=self.seed, numerics=self._numerics, data=self._data
        )
        self._live.load(trace.final_state())
        self._scale = self._scaler_state()
        last = None
        for frame in trace.frames():
            last = frame.record
            self._position.replay(last)
        assert last is not None
        self._live.set_groups(last.resume.groups if last.resume and last.resume.groups else last.groups)
        if self._scheduler is not None and last.resume is not None and last.resume.scheduler is not None:
            self._scheduler.load_state_dict(from_json(last.resume.scheduler))
        self._guard.note()
        self.steps, self._open = trace.steps, OpenStep(trace.steps)
        self._writer = TraceWriter.resume(self.path, trace, current_environment(code=True))
        self._facts["checkpoint_every"] = trace.manifest.checkpoint_every

"""Recording an exact run: a leaf per step, sparse checkpoints, and rows only where they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from trainwitness.core.environment import current_environment
from trainwitness.core.errors import StorageError, TraceMismatch, UsageError
from trainwitness.trace import format as f
from trainwitness.trace.exact_reader import ExactTrace
from trainwitness.trace.exact_writer import ExactWriter
from trainwitness.trace.reader import Trace
from trainwitness.trace.writer import FolderLock, refuse_used_folder
from trainwitness.training.stepper import Stepper

OnStep = Callable[[int, torch.Tensor], None]


def record_exact(
    stepper: Stepper,
    path: Path,
    data: f.DataFacts,
    *,
    steps: int,
    checkpoint_every: int = f.EXACT_CHECKPOINT_EVERY,
    chunk_steps: int = f.CHUNK_STEPS,
    resume: bool = False,
    explicit_rows: bool = False,
    on_step: OnStep | None = None,
) -> None:
    """Trains up to `steps` and records each step's leaf."""
    lock = FolderLock(path)
    try:
        writer, first = _begin(stepper, path, data, checkpoint_every, chunk_steps, resume=resume)
        if first > steps:
            raise UsageError(f"{path}: {first} steps are recorded already, {steps} were asked for")
        with _kept(writer):
            for step in range(first, steps):
                batch = stepper.task.schedule.batch(step)
                loss = stepper.run(batch)
                writer.append(stepper.begin_leaf(step), batch if explicit_rows else None, stepper.state)
                if on_step:
                    on_step(step, loss)
        writer.seal(stepper.state())
    finally:
        lock.release()


@contextmanager
def _kept(writer: ExactWriter) -> Iterator[None]:
    """What was recorded before an interruption stays, to be resumed."""
    try:
        yield
    except BaseException:
        writer.rescue()
        raise


def _begin(
    stepper: Stepper, path: Path, data: f.DataFacts, checkpoint_every: int, chunk_steps: int, *, resume: bool
) -> tuple[ExactWriter, int]:
    task, model = stepper.task, stepper.live.model
    initial = stepper.state()
    if resume and (path / f.MANIFEST).exists():
        return _resumed(stepper, path, data)
    refuse_used_folder(path)
    manifest = f.Manifest(
        format=f.EXACT_FORMAT,
        task=task.spec,
        model=type(model).__name__,
        parameters=sum(parameter.numel() for parameter in model.parameters()),
        optimizer=type(stepper.live.optimizer).__name__,
        numerics=stepper.numerics,
        environment=current_environment(code=True),
        seed=task.seed,
        initialisation=task.initialisation,
        order=task.schedule.describe(),
        data=data,
        checkpoint_every=checkpoint_every,
        chunk_steps=chunk_steps,
    )
    return ExactWriter.create(path, manifest, initial), 0


def _resumed(stepper: Stepper, path: Path, data: f.DataFacts) -> tuple[ExactWriter, int]:
    """Computes what was recorded since the last checkpoint again, and goes on behind it."""
    trace = Trace.open(path)
    if not isinstance(trace, ExactTrace):
        raise TraceMismatch(f"{path}: recorded in {trace.manifest.numerics.precision}, resumed in exact")
    if trace.sealed:
        raise StorageError(f"{path}: this trace is sealed; nothing is left to resume")
    manifest, task = trace.manifest, stepper.task
    if (manifest.task, manifest.seed, manifest.data) != (task.spec, task.seed, data):
        raise TraceMismatch(f"{path}: recorded with another task, seed or data set")
    initial = stepper.state()
    start, state = trace.checkpoint(max(trace.steps - 1, 0)) if trace.chunks else (0, None)
    if state is not None and start:
        stepper.run(task.schedule.batch(0))  # so that the optimiser has its tensors
        stepper.load(state)
    for stored in trace.exact_steps(start):
        stepper.run(stored.batch or task.schedule.batch(stored.step))
        if stepper.leaf(stored.step) != stored.leaf:
            raise TraceMismatch(f"{path}: step {stored.step} does not come out as recorded", hint="record it anew")
    writer = ExactWriter.resume(path, trace, initial, stepper.state(), current_environment(code=True))
    return writer, trace.steps

"""Recording a Task: the built-in training loop, through the same Recorder that a user's loop uses."""

from __future__ import annotations

import functools
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from trainwitness.commitments.commitment import commit
from trainwitness.commitments.sources import rows_of
from trainwitness.core.errors import StorageError, UsageError
from trainwitness.core.files import storage_errors
from trainwitness.core.numerics import Numerics
from trainwitness.tasks.dataset import Dataset
from trainwitness.tasks.task import Task
from trainwitness.trace import format as f
from trainwitness.trace.codec import encode
from trainwitness.trace.exact_record import record_exact
from trainwitness.trace.layout import EMPTY, Buffer
from trainwitness.trace.recorder import Recorder
from trainwitness.training.evaluate import accuracy
from trainwitness.training.stepper import Stepper

OnStep = Callable[[int, torch.Tensor], None]


@dataclass(frozen=True)
class Recorded:
    """What a recording came to."""

    path: Path
    steps: int
    first_loss: float | None
    last_loss: float | None
    test_accuracy: float | None
    seconds: float


@dataclass(frozen=True)
class Estimate:
    """What a recording will take, from a few real steps."""

    steps: int
    seconds: float
    stored_bytes: int


def record(
    task: Task,
    path: Path | str,
    *,
    steps: int,
    numerics: Numerics | None = None,
    checkpoint_every: int | None = None,
    chunk_steps: int = f.CHUNK_STEPS,
    resume: bool = False,
    explicit_rows: bool = False,
    save_model: Path | None = None,
    on_step: OnStep | None = None,
) -> Recorded:
    """Trains `task` for `steps` steps and records every one of them under `path`.

    Of every `checkpoint_every`-th step the State is kept: all of them by default, in exact arithmetic one in 4,096.
    `explicit_rows` writes the rows of every step into an exact trace; otherwise the schedule's seed gives them.
    `save_model` names a safetensors file for the final State's parameters and buffers.

    >>> from trainwitness.tasks.registry import build_task
    >>> record(build_task("softmax-digits"), "run.trace", steps=10).steps        # doctest: +SKIP
    10
    """
    if steps < 1:
        raise UsageError(f"{steps} steps", hint="record at least one step")
    numerics = with_threads(numerics or Numerics())
    if checkpoint_every is not None and checkpoint_every < 1:
        raise UsageError("checkpoint_every must be at least 1")
    if explicit_rows and numerics.precision != "exact":
        raise UsageError("explicit rows in a float trace", hint="float traces always hold their rows")
    stepper = Stepper(task, numerics)
    started, losses = time.perf_counter(), list[torch.Tensor]()

    def note(step: int, loss: torch.Tensor) -> None:
        losses[1:] = [loss.detach()]
        if on_step:
            on_step(step, loss)

    if numerics.precision == "exact":
        record_exact(
            stepper,
            Path(path),
            dataset_facts(task.dataset),
            steps=steps,
            checkpoint_every=checkpoint_every or f.EXACT_CHECKPOINT_EVERY,
            chunk_steps=chunk_steps,
            resume=resume,
            explicit_rows=explicit_rows,
            on_step=note,
        )
    else:
        _record(stepper, path, steps, checkpoint_every or 1, chunk_steps, resume, note)
    if save_model is not None:
        _save_model(stepper, save_model)
    return Recorded(
        path=Path(path),
        steps=steps,
        first_loss=losses[0].item() if losses else None,
        last_loss=losses[-1].item() if losses else None,
        test_accuracy=accuracy(stepper),
        seconds=time.perf_counter() - started,
    )


def _save_model(stepper: Stepper, path: Path) -> None:
    from safetensors.torch import save_file

    with storage_errors(path, "saving the model"):
        save_file({name: tensor.cpu().contiguous() for name, tensor in stepper.live.model.state_dict().items()}, path)


def _record(
    stepper: Stepper,
    path: Path | str,
    steps: int,
    checkpoint_every: int,
    chunk_steps: int,
    resume: bool,
    note: OnStep,
) -> None:
    task = stepper.task
    with Recorder(
        path,
        model=stepper.live.model,
        optimizer=stepper.live.optimizer,
        scaler=stepper.scaler,
        seed=task.seed,
        task=task.spec,
        numerics=stepper.numerics,
        data=dataset_facts(task.dataset),
        initialisation=task.initialisation,
        order=task.schedule.describe(),
        checkpoint_every=checkpoint_every,
        chunk_steps=chunk_steps,
        resume=resume,
    ) as recorder:
        if recorder.steps > steps:
            raise UsageError(f"{path}: {recorder.steps} steps are recorded already, {steps} were asked for")
        for step in range(recorder.steps, steps):
            batch = task.schedule.batch(step)
            note(step, stepper.run(batch, functools.partial(recorder.batch, epoch=batch.epoch)))


def estimate(
    task: Task, *, steps: int, numerics: Numerics | None = None, checkpoint_every: int | None = None
) -> Estimate:
    """Time and size of a recording, from three steps that are run and encoded but not kept."""
    stepper = Stepper(task, with_threads(numerics or Numerics()))
    before = Buffer.of(stepper.live.tensors())
    keyframe, seconds, frame = len(encode(before, EMPTY)), 0.0, 0
    for step in range(3):
        started = time.perf_counter()
        stepper.run(task.schedule.batch(step))
        after = Buffer.of(stepper.live.tensors())
        frame = len(encode(after, before)) + 5 * task.schedule.batch(step).size
        seconds, before = time.perf_counter() - started, after  # the last: the first ones warm up
    if stepper.exact:
        stored = keyframe * (steps // (checkpoint_every or f.EXACT_CHECKPOINT_EVERY)) + f.LEAF_BYTES * steps
    else:
        stored = keyframe * (1 + steps // f.CHUNK_STEPS) + frame * max(1, steps // (checkpoint_every or 1))
    return Estimate(steps=steps, seconds=seconds * steps, stored_bytes=stored)


def check_room(path: Path, needed: int) -> None:
    """Refuses a recording that cannot fit on the disk."""
    existing = next(parent for parent in [path.absolute(), *path.absolute().parents] if parent.exists())
    free = shutil.disk_usage(existing).free
    if needed > free:
        raise StorageError(
            f"{path}: the trace will need about {needed:,} bytes, {free:,} are free",
            hint="make room, record fewer steps, or keep fewer States with --checkpoint-every",
        )


def dataset_facts(dataset: Dataset) -> f.DataFacts:
    """The manifest's facts about a Dataset."""
    return commit(rows_of(dataset)).data


def with_threads(numerics: Numerics) -> Numerics:
    """The Numerics with the number of threads made explicit."""
    return numerics.model_copy(update={"threads": numerics.threads or torch.get_num_threads()})

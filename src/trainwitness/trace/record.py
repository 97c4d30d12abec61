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
from trainwitness.core.numerics import Numerics
from trainwitness.tasks.dataset import Dataset
from trainwitness.tasks.task import Task
from trainwitness.trace import format as f
from trainwitness.trace.codec import encode
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
    checkpoint_every: int = 1,
    chunk_steps: int = f.CHUNK_STEPS,
    resume: bool = False,
    on_step: OnStep | None = None,
) -> Recorded:
    """Trains `task` for `steps` steps and records every one of them under `path`.

    >>> from trainwitness.tasks.registry import build_task
    >>> record(build_task("softmax-digits"), "run.trace", steps=10).steps        # doctest: +SKIP
    10
    """
    if steps < 1:
        raise UsageError(f"{steps} steps", hint="record at least one step")
    numerics = with_threads(numerics or Numerics())
    stepper = Stepper(task, numerics)
    started, losses = time.perf_counter(), list[float]()
    with Recorder(
        path,
        model=stepper.live.model,
        optimizer=stepper.live.optimizer,
        scaler=stepper.scaler,
        seed=task.seed,
        task=task.spec,
        numerics=numerics,
        data=dataset_facts(task.dataset),
        initialisation=task.initialisation,
        order=task.schedule.describe(),
        checkpoint_every=checkpoint_every,
        chunk_steps=chunk_steps,
        resume=resume,
    ) as recorder:
        if recorder.steps > steps:
            raise UsageError(f"{path}: {recorder.steps} steps are recorded already, {steps} were asked for")
        first = recorder.steps
        for step in range(first, steps):
            batch = task.schedule.batch(step)
            loss = stepper.run(batch, functools.partial(recorder.batch, epoch=batch.epoch))
            if step in (first, steps - 1):
                losses.append(loss.item())
            if on_step:
                on_step(step, loss)
    return Recorded(
        path=Path(path),
        steps=steps,
        first_loss=losses[0] if losses else None,
        last_loss=losses[-1] if losses else None,
        test_accuracy=accuracy(stepper),
        seconds=time.perf_counter() - started,
    )


def estimate(task: Task, *, steps: int, numerics: Numerics | None = None, checkpoint_every: int = 1) -> Estimate:
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
    stored = keyframe * (1 + steps // f.CHUNK_STEPS) + frame * max(1, steps // checkpoint_every)
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

"""What a trace is verified with: the task, the Numerics, and a model of the stated size."""

from __future__ import annotations

from pathlib import Path

import torch

from trainwitness.core.errors import TraceMismatch, UsageError
from trainwitness.core.numerics import Numerics
from trainwitness.tasks.registry import build_task
from trainwitness.tasks.task import Task, TaskSpec, parameter_count
from trainwitness.trace.format import Manifest
from trainwitness.trace.reader import Trace
from trainwitness.trace.record import with_threads


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
    theirs = manifest.numerics
    if wanted is not None:
        if theirs.precision == "exact" != wanted.precision:
            raise UsageError(
                f"an exact trace recomputed in {wanted.precision}",
                hint="its digests come out only in exact arithmetic",
            )
        return with_threads(wanted)
    here = theirs.device == "cpu" or (theirs.device.startswith("cuda") and torch.cuda.is_available())
    return theirs if here else with_threads(theirs.model_copy(update={"device": "cpu", "threads": None}))


def check_size(task: Task, trace: Trace) -> None:
    """A trace's options may ask for any size of a built-in model: refused unless its first State has that size."""
    if task.spec is None or ":" in task.spec.name or not trace.chunks:
        return
    wanted, held = parameter_count(task.model), trace.initial_parameters()
    if wanted != held:
        raise TraceMismatch(
            f"the first State has {held:,} parameters (param/...), {task.spec.name} has {wanted:,}",
            hint="is this the task the trace was recorded with?",
        )

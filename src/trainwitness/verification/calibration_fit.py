"""Whether a calibration speaks of this task, this machine and this trace."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from trainwitness.core.environment import current_environment
from trainwitness.core.numerics import Numerics
from trainwitness.tasks.registry import full_options
from trainwitness.tasks.task import Task, TaskSpec
from trainwitness.trace.format import Manifest
from trainwitness.verification.calibration import Calibration


def calibration_mismatches(
    calibration: Calibration, task: Task, numerics: Numerics, manifest: Manifest | None = None
) -> list[str]:
    """Why a calibration says nothing about verifying this trace here; the seed alone may differ."""
    own = TaskSpec.model_validate(calibration.task) if calibration.task else None
    found = []
    if task.spec is None or own is None or _what(task.spec) != _what(own):
        found.append(f"it was made for {_described(own)}, this is {_described(task.spec)}")
    for key in sorted(set(Numerics.model_fields) - {"threads"}):  # the number of threads was varied
        theirs, here = getattr(calibration.numerics, key), getattr(numerics, key)
        if theirs != here:
            found.append(f"it was made with {key} {theirs}, this is with {here}")
    if manifest is not None:
        found += _trace_mismatches(numerics, manifest)
    machine = current_environment()
    for key in ("torch", "processor", "cpu_capability", "gpu", "cuda"):
        theirs, here = getattr(calibration.environment, key), getattr(machine, key)
        if theirs != here:
            found.append(f"it was made with {key} {theirs}, this machine has {here}")
    return found


def _trace_mismatches(numerics: Numerics, manifest: Manifest) -> Iterator[str]:
    theirs = manifest.numerics
    if theirs.precision != numerics.precision:
        yield f"it is about {numerics.precision}, the trace was recorded in {theirs.precision}"
    if (theirs.tf32, theirs.tf32_convolution) != (numerics.tf32, numerics.tf32_convolution):
        yield "the trace was recorded with other TF32 settings"
    if manifest.checkpoint_every != 1:
        yield f"it is about single steps, the trace keeps every {manifest.checkpoint_every}th State"


def _what(spec: TaskSpec) -> tuple[str, dict[str, Any]]:
    """A task without its seed, which does not change the noise."""
    return spec.name, {key: value for key, value in full_options(spec).items() if key != "seed"}


def _described(spec: TaskSpec | None) -> str:
    if spec is None:
        return "a task without a name, which cannot be recognised (name it as package.module:function)"
    return spec.name + "".join(f", {key} {value}" for key, value in sorted(spec.options.items()))

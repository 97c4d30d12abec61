"""A claim: was my example used? Looks for it in every batch of a trace, and where b = 1 in the States themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import torch

from trainwitness.audit.copies import Copy, copies
from trainwitness.core.errors import StorageError, UsageError
from trainwitness.forging.one_example import one_example
from trainwitness.tasks.dataset import Dataset
from trainwitness.tasks.domain import Array, IntegerBox
from trainwitness.tasks.task import Task
from trainwitness.trace.reader import Trace
from trainwitness.trace.rows import record_batch
from trainwitness.trace.segments import Segment
from trainwitness.training.first_layer import first_layer, input_scale
from trainwitness.training.stepper import Stepper
from trainwitness.verification.resolve import numerics_for
from trainwitness.verification.rows import row_problems

NEAR = 0.03
"""Share of the domain's range (of real data, of the example's own) that a near copy may differ by."""
_AT_ONCE = 4096


@dataclass(frozen=True)
class Use:
    """A content of the trace that comes from the example: where it was used, and how."""

    copy: Copy
    row: int | None
    """The row's number in the data set; None if the trace carries the content."""
    steps: list[int]
    same_label: bool | None


@dataclass(frozen=True)
class Claim:
    """What was found, and what was looked through."""

    uses: list[Use]
    contents: int
    steps: int
    by_gradient: list[int]
    """Steps of one example whose States, whatever the trace says of its batch, were made with the claimed input."""
    notes: list[str] = field(default_factory=list)

    @property
    def found(self) -> bool:
        return bool(self.uses or self.by_gradient)


def load_example(path: Path, dataset: Dataset) -> tuple[Array, int | None]:
    """An input, and its label if the file has one: `.npy` with the input, or `.npz` with `x` and perhaps `y`."""
    try:
        loaded = np.load(path, allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            inputs, label = loaded, None
        else:
            inputs, label = loaded["x"], int(loaded["y"]) if "y" in loaded else None
    except (OSError, EOFError, ValueError, KeyError, TypeError, BadZipFile) as error:
        raise StorageError(
            f"{path}: not an example: {error}", hint="save the raw input with numpy.save, or x and y with numpy.savez"
        ) from error
    shape = dataset.inputs.shape[1:]
    if inputs.size != int(np.prod(shape)) or not np.isfinite(np.asarray(inputs, np.float64)).all():
        raise UsageError(
            f"{path}: an input of shape {list(inputs.shape)}, rows of {dataset.name} have {list(shape)}",
            hint="give the raw row, before normalisation",
        )
    return inputs.reshape(shape), label


def check_claim(
    trace: Trace,
    task: Task,
    example: Array,
    label: int | None = None,
    *,
    near: float = NEAR,
    on_step: Callable[[int], None] | None = None,
) -> Claim:
    """Looks for the example in everything the trace says it used, and behind steps of one example."""
    dataset, uses = task.dataset, []
    contents = _contents(trace, dataset, on_step)
    tokens = not dataset.prepare(torch.from_numpy(dataset.inputs[:1].copy()), torch.float32).is_floating_point()
    for first in range(0, len(contents), _AT_ONCE):
        some = contents[first : first + _AT_ONCE]
        rows = np.stack([content.inputs for content in some]).reshape(len(some), -1)
        for copy in _tokens(example, rows, near) if tokens else _copies(example, rows, dataset, near):
            content = some[copy.row]
            same = None if label is None else bool(content.label == label)
            uses.append(Use(copy, content.row, content.steps, same))
    single, note = _behind_single_steps(trace, task, example, near)
    notes = ["tokens have no scaled or mixed copies; near means few other tokens"] if tokens else []
    return Claim(uses, len(contents), trace.steps, single, [*notes, *note])


@dataclass(frozen=True, eq=False)
class _Content:
    row: int | None
    inputs: Array
    label: Any
    steps: list[int]


def _contents(trace: Trace, dataset: Dataset, on_step: Callable[[int], None] | None) -> list[_Content]:
    """Every content that the trace says it used, once, with its steps."""
    found: dict[int | bytes, _Content] = {}
    for frame in trace.frames():
        batch = record_batch(frame.record)
        for position, row in enumerate(row for micro in batch.rows for row in micro):
            key = batch.carried.get(position, row)
            if key not in found:
                made = _content(key, dataset)
                if made is None:
                    continue
                found[key] = made
            found[key].steps.append(batch.step)
        if on_step:
            on_step(1)
    return list(found.values())


def _content(key: int | bytes, dataset: Dataset) -> _Content | None:
    """A row of the data set or a carried one; nothing where the trace names what does not exist."""
    if isinstance(key, int):
        return _Content(key, dataset.inputs[key], dataset.labels[key], []) if key < len(dataset) else None
    try:
        return _Content(None, *dataset.parse(key), [])
    except ValueError:
        return None


def _tokens(example: Array, rows: Array, near: float) -> Iterator[Copy]:
    differing = (rows != example.reshape(-1)).mean(1)
    for row in np.flatnonzero(differing <= near):
        yield Copy(int(row), "near" if differing[row] else "exact", float(differing[row]))


def _copies(example: Array, rows: Array, dataset: Dataset, near: float) -> Iterator[Copy]:
    unit = _unit(dataset, example)
    partners = dataset.inputs.reshape(len(dataset), -1)
    return copies(example.reshape(-1) / unit, rows / unit, near=near * 255, partners=partners, partner_unit=unit)


def _behind_single_steps(trace: Trace, task: Task, example: Array, near: float) -> tuple[list[int], list[str]]:
    """Steps of one example whose gradient, read off the States, is the claimed example's (Proposition 1)."""
    if not any(sum(map(len, frame.record.rows)) == 1 for frame in trace.frames()):
        return [], []
    stepper = Stepper(task, numerics_for(trace.manifest, None))
    groups = stepper.live.groups()
    if type(stepper.live.optimizer) is not torch.optim.SGD or groups[0]["momentum"] or groups[0]["weight_decay"]:
        return [], ["steps of one example were not read: only plain SGD shows its gradient in the States"]
    found, unit = [], _unit(task.dataset, example)
    for segment in trace.segments():
        batch = segment.batches[0]
        if len(segment.records) != 1 or batch.size != 1 or row_problems(batch, task.dataset):
            continue
        inputs = _recovered(segment, stepper)
        if inputs is None:
            return [], ["steps of one example were not read: the first layer is not fully connected with a bias"]
        if len(inputs) and np.sqrt((((inputs - example.reshape(-1)) / unit) ** 2).mean()) <= near * 255:
            found.append(batch.step)
    return found, []


def _recovered(segment: Segment, stepper: Stepper) -> Array | None:
    """The raw input behind a step of one example: empty where the step shows none, None where no step can."""
    task = stepper.task
    try:
        name = first_layer(stepper, segment.before, segment.batches[0]).name
        scale, origin = input_scale(task.dataset)
    except UsageError:
        return None
    change = {key: before - segment.after.part("param")[key] for key, before in segment.before.part("param").items()}
    if f"{name}bias" not in change:
        return None
    rate = task.schedule.learning_rate(segment.batches[0].step)
    weight, bias = (change[f"{name}{part}"].double().numpy() / rate for part in ("weight", "bias"))
    one = one_example(weight.T, bias, tolerance=0.05)
    return np.zeros(0) if one.inputs is None else (one.inputs - origin) / scale


def _unit(dataset: Dataset, example: Array) -> Any:
    """What one of 255 parts of the domain is, so that tables and images are measured alike."""
    domain = dataset.domain
    if isinstance(domain, IntegerBox):
        return np.maximum(np.asarray(domain.high, np.float64) - np.asarray(domain.low, np.float64), 1) / 255
    return max(float(np.ptp(example.astype(np.float64))), 1e-300) / 255

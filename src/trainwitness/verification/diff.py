"""diff: where two traces first differ, and in what."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from pathlib import Path

import torch

from trainwitness.core.state import State
from trainwitness.trace.exact_reader import ExactTrace
from trainwitness.trace.reader import Trace
from trainwitness.trace.segments import Segment


@dataclass(frozen=True)
class Difference:
    """The first difference: `step` is None where it comes before any step."""

    step: int | None
    what: str


def diff(one: Trace | Path | str, other: Trace | Path | str) -> list[Difference]:
    """Differences in what the traces state of themselves, then the first one among their steps; empty if equal."""
    a, b = (t if isinstance(t, Trace) else Trace.open(t) for t in (one, other))
    found = _manifest_differences(a, b)
    first = _first_step_difference(a, b)
    return [*found, first] if first else found


def _manifest_differences(a: Trace, b: Trace) -> list[Difference]:
    mine, theirs = (t.manifest.model_dump(mode="json") for t in (a, b))
    return [Difference(None, f"{key}: {mine[key]} / {theirs[key]}") for key in mine if mine[key] != theirs[key]]


def _first_step_difference(a: Trace, b: Trace) -> Difference | None:
    if isinstance(a, ExactTrace) or isinstance(b, ExactTrace):
        return _first_leaf_difference(a, b)
    if a.chunks and b.chunks:
        what = state_difference(a.initial_state(), b.initial_state())
        if what:
            return Difference(None, f"initial State: {what}")
    for left, right in itertools.zip_longest(a.segments(), b.segments()):
        if left is None or right is None:
            return Difference(min(a.steps, b.steps), f"one trace ends: {a.steps} / {b.steps} steps")
        found = _segment_difference(left, right)
        if found:
            return found
    return None


def _first_leaf_difference(a: Trace, b: Trace) -> Difference | None:
    """Exact traces have no States to compare, but a digest of every step."""
    if not isinstance(a, ExactTrace) or not isinstance(b, ExactTrace):
        return Difference(None, "one trace keeps States, the other only digests of exact arithmetic")
    if a.chunks and b.chunks and a.initial_digest() != b.initial_digest():
        return Difference(None, "initial State: another digest")
    for left, right in itertools.zip_longest(a.exact_steps(), b.exact_steps()):
        if left is None or right is None:
            return Difference(min(a.steps, b.steps), f"one trace ends: {a.steps} / {b.steps} steps")
        if left.batch and right.batch and left.batch != right.batch:
            return Difference(left.step, "rows")
        if left.leaf != right.leaf:
            return Difference(left.step, "digest of State, outputs and gradient sums")
    return None


def _segment_difference(left: Segment, right: Segment) -> Difference | None:
    for mine, theirs in zip(left.records, right.records, strict=False):
        for key in ("epoch", "rows", "carried", "groups"):
            one, other = getattr(mine, key), getattr(theirs, key)
            if one != other:
                detail = "" if key in ("rows", "carried") else f": {one} / {other}"
                return Difference(mine.step, f"{'settings' if key == 'groups' else key}{detail}")
    if left.records[-1].step != right.records[-1].step:
        return Difference(left.records[-1].step, "the traces keep other States (checkpoint_every)")
    what = state_difference(left.after, right.after)
    return Difference(left.records[-1].step, f"State after the step: {what}") if what else None


def state_difference(one: State, other: State) -> str | None:
    """The tensor with the largest difference, in words; None if the States are equal."""
    if one.digest() == other.digest():
        return None
    for name in sorted({*one.tensors, *other.tensors}, key=str.encode):
        a, b = one.tensors.get(name), other.tensors.get(name)
        if a is None or b is None:
            return f"{name} is in only one of them"
        if (a.dtype, a.shape) != (b.dtype, b.shape):
            return f"{name} is {a.dtype}{list(a.shape)} / {b.dtype}{list(b.shape)}"
    gaps = {
        name: float((tensor.double() - other.tensors[name].double()).abs().max())
        for name, tensor in one.tensors.items()
        if tensor.numel() and not torch.equal(tensor, other.tensors[name])
    }
    if not gaps:
        return "only the signs of zeros, or bits of undefined values"
    worst = max(gaps, key=lambda name: gaps[name])
    return f"{len(gaps)} of {len(one.tensors)} tensors, most in {worst} (by {gaps[worst]:.3g})"

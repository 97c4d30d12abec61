"""Property `initialised`: the run began where its seed says, with an empty optimiser."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from trainwitness.core.canonical import tensor_bytes
from trainwitness.core.state import State
from trainwitness.core.verdict import Property
from trainwitness.tasks.task import Task
from trainwitness.trace.format import Manifest

FRESH_SCALER = {"growth": 0, "scale": 65536.0}
MAX_ULPS = 4
"""Allowed for parameters that PyTorch drew: its generators are the same everywhere, its transforms nearly so."""

_UNLIKE = 1 << 62


def check_initial(state: State, expected: State, manifest: Manifest, task: Task) -> Property:
    """Compares the trace's first State with the one the task derives from the seed."""
    held = sorted(state.part("optim"))
    if held:
        return _refuted(f"the optimiser was not empty before the first step: it held {held[0]}")
    trained, mine = ({n: t for n, t in s.tensors.items() if not n.startswith("scaler/")} for s in (state, expected))
    if set(trained) != set(mine):
        other = sorted(set(trained) ^ set(mine))[0]
        return _refuted(f"{other} is in only one of the trace's and the task's initial State")
    if manifest.initialisation == "unstated" and manifest.task is None:
        return Property(standing="unknown", why="the trace does not say how its parameters were initialised")
    scaler: dict[str, object] = {name: tensor.tolist() for name, tensor in state.part("scaler").items()}
    if scaler != (FRESH_SCALER if manifest.numerics.precision == "float16" else {}):
        return _refuted(f"the loss scaler began with {scaler}, not {FRESH_SCALER}")
    worst = max((ulps(trained[name], mine[name]), name) for name in trained)
    allowed = 0 if task.initialisation == "portable" else MAX_ULPS
    if worst[0] > allowed:
        return _refuted(
            f"{worst[1]} is not what seed {manifest.seed} gives (off by {worst[0]} ULPs, {allowed} allowed)"
        )
    how = "bit for bit" if worst[0] == 0 else f"within {worst[0]} ULPs"
    return Property(standing="established", why=f"seed {manifest.seed} gives the initial parameters {how}")


def ulps(one: torch.Tensor, other: torch.Tensor) -> int:
    """The largest number of steps between neighbouring floats from one tensor's elements to the other's."""
    if one.shape != other.shape or one.dtype != other.dtype:
        return _UNLIKE
    if one.numel() == 0 or bool((tensor_bytes(one) == tensor_bytes(other)).all()):
        return 0
    if not one.is_floating_point():
        return _UNLIKE
    a, b = (_ordered(tensor_bytes(t).view(f"<u{t.element_size()}")) for t in (one, other))
    return int((np.maximum(a, b) - np.minimum(a, b)).max())


def _ordered(words: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Bit patterns as unsigned integers in the order of the floats they stand for."""
    sign = words.dtype.type(1) << (8 * words.itemsize - 1)
    return np.where(words & sign, ~words, words | sign)


def _refuted(why: str) -> Property:
    return Property(standing="refuted", why=why)

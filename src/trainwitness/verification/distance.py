"""How far apart two States are, part by part."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass

import torch

from trainwitness.core.state import State

_COUNTER_TOLERANCE = 1e-6
"""Scalars in the optimiser's state count steps or multiply constants; they have no benign error to speak of."""


@dataclass(frozen=True)
class Distance:
    """`l2` and `linf` over all parameters as one vector, in float64.

    `buffers` and `optimizer` are relative: of all momentum buffers (running means, ...) as one vector, the error's l2
    over their own, the largest of such kinds.

    Paper 000, section 2.1: e_{i+1} = || theta_{i+1} - g(theta_i, B_i) ||_2.
    """

    l2: float
    linf: float
    buffers: float
    optimizer: float
    problems: list[str]


def distance(stored: State, computed: State) -> Distance:
    """The stored State's distance from the computed one, which may have another floating-point precision."""
    squares: dict[tuple[str, str], float] = defaultdict(float)
    largest, problems = 0.0, []
    for name in sorted({*stored.tensors, *computed.tensors}, key=str.encode):
        one, other = stored.tensors.get(name), computed.tensors.get(name)
        if name.startswith("scaler/") and not computed.part("scaler"):
            continue  # computed in a precision that needs no scaler
        problem = _unlike(name, one, other)
        if problem:
            problems.append(problem)
        elif one is not None and other is not None and not (one.dtype == other.dtype and torch.equal(one, other)):
            difference = torch.nan_to_num(one.double() - other.double(), nan=0.0)  # undefined in both
            squares[_kind(name)] += float(difference.square().sum())
            if name.startswith("param/"):
                largest = max(largest, float(difference.abs().max()))
    shares = {kind: math.sqrt(value) / max(_size(computed, kind), 1e-30) for kind, value in squares.items() if value}
    part = {
        name: max((s for kind, s in shares.items() if kind[0] == name), default=0.0) for name in ("buffer", "optim")
    }
    return Distance(math.sqrt(squares[_PARAMETERS]), largest, part["buffer"], part["optim"], problems)


_PARAMETERS = ("param", "")


def _kind(name: str) -> tuple[str, str]:
    """What is one long vector: all parameters; all momentum buffers; all running means; ..."""
    part, _, rest = name.partition("/")
    if part == "param":
        return _PARAMETERS
    return part, rest.rpartition("/")[2] if part == "optim" else rest.rpartition(".")[2]


def _size(state: State, kind: tuple[str, str]) -> float:
    return math.sqrt(sum(float(t.double().square().sum()) for n, t in state.tensors.items() if _kind(n) == kind))


def _unlike(name: str, one: torch.Tensor | None, other: torch.Tensor | None) -> str | None:
    """Why two tensors have no distance, or one that no rounding explains."""
    if one is None or other is None or one.shape != other.shape:
        described = ["absent" if t is None else list(t.shape) for t in (one, other)]
        return f"{name} is {described[0]} in the trace, {described[1]} when computed"
    if name.startswith("scaler/") or not one.is_floating_point():
        return None if torch.equal(one, other) else f"{name} differs from the computed value"
    if one.dim() == 0 and name.startswith("optim/"):
        near = abs(one.item() - other.item()) <= _COUNTER_TOLERANCE * abs(other.item())
        return None if near else f"{name} is {one.item()}, computed {other.item()}"
    undefined = one.isnan() != other.isnan()
    return f"{name} is not a number in one of the two" if bool(undefined.any()) else None


def update_size(before: State, after: State) -> float:
    """l2 of the parameters' update."""
    return math.sqrt(
        sum(float((after.tensors[n].double() - t.double()).norm()) ** 2 for n, t in before.tensors.items()
            if n.startswith("param/") and n in after.tensors and after.tensors[n].shape == t.shape)
    )  # fmt: skip

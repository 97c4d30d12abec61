"""How far apart two States are, part by part."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from trainwitness.core.state import State

_COUNTER_TOLERANCE = 1e-6
"""Scalars in the optimiser's state count steps or multiply constants; they have no benign error to speak of."""


@dataclass(frozen=True)
class Distance:
    """`l2` and `linf` over all parameters as one vector, in float64; other parts relative to their own size.

    Paper 000, section 2.1: e_{i+1} = || theta_{i+1} - g(theta_i, B_i) ||_2.
    """

    l2: float
    linf: float
    buffers: float
    optimizer: float
    problems: list[str]


def distance(stored: State, computed: State) -> Distance:
    """The stored State's distance from the computed one, which may have another floating-point precision."""
    squares = largest = 0.0
    parts = {"buffer": 0.0, "optim": 0.0}
    problems: list[str] = []
    names = sorted({*stored.tensors, *computed.tensors}, key=str.encode)
    for name in names:
        one, other = stored.tensors.get(name), computed.tensors.get(name)
        if name.startswith("scaler/") and not computed.part("scaler"):
            continue  # computed in a precision that needs no scaler
        if one is None or other is None or one.shape != other.shape:
            described = ["absent" if t is None else list(t.shape) for t in (one, other)]
            problems.append(f"{name} is {described[0]} in the trace, {described[1]} when computed")
            continue
        if one.dtype == other.dtype and torch.equal(one, other):
            continue
        part = name.partition("/")[0]
        if part == "scaler" or not one.is_floating_point():
            problems.append(f"{name} differs from the computed value")
            continue
        difference = one.double() - other.double()
        norm = float(difference.norm())
        if math.isnan(norm):
            problems += [] if _same_undefined(one, other) else [f"{name} is not a number in one of the two"]
        elif part == "param":
            squares += norm * norm
            largest = max(largest, float(difference.abs().max()))
        else:
            relative = norm / max(float(other.double().norm()), 1e-30)
            if one.dim() == 0 and relative > _COUNTER_TOLERANCE:
                problems.append(f"{name} is {one.item()}, computed {other.item()}")
            parts[part] = max(parts[part], relative)
    return Distance(math.sqrt(squares), largest, parts["buffer"], parts["optim"], problems)


def update_size(before: State, after: State) -> float:
    """l2 of the parameters' update."""
    return math.sqrt(
        sum(float((after.tensors[n].double() - t.double()).norm()) ** 2 for n, t in before.tensors.items()
            if n.startswith("param/") and n in after.tensors and after.tensors[n].shape == t.shape)
    )  # fmt: skip


def _same_undefined(one: torch.Tensor, other: torch.Tensor) -> bool:
    return bool(((one.double() == other.double()) | (one.isnan() & other.isnan())).all())

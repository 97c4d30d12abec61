"""How far apart two States are, part by part."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass

import torch

from trainwitness.core.canonical import same_bits
from trainwitness.core.numerics import Precision
from trainwitness.core.state import State
from trainwitness.training.apply_numerics import COMPUTE_DTYPE

_COUNTER_TOLERANCE = 1e-6
"""Scalars in the optimiser's state count steps or multiply constants; they have no benign error to speak of."""
_SCALER = {"scaler/scale", "scaler/growth"}


@dataclass(frozen=True)
class Distance:
    """`l2` and `linf` over all parameters as one vector, in float64.

    `buffers` and `optimizer` are relative, l2 of the error over l2 of the computed values. Buffers are part of the
    model, so each tensor counts by itself and the largest is taken; of the optimiser's tensors all of a kind
    (momentum, second moments) are one vector, as the parameters are. `exact`: the same tensors with the same bits.

    Paper 000, section 2.1: e_{i+1} = || theta_{i+1} - g(theta_i, B_i) ||_2.
    """

    l2: float
    linf: float
    buffers: float
    optimizer: float
    problems: list[str]
    exact: bool = False


@dataclass(frozen=True)
class Ruler:
    """Compares States of a trace recorded in one precision with States computed in another, or the same."""

    recorded: Precision
    computed: Precision

    def __call__(self, stored: State, computed: State) -> Distance:
        """The stored State's distance from the computed one."""
        if _identical(stored, computed):
            return Distance(0.0, 0.0, 0.0, 0.0, [], exact=True)
        squares: dict[tuple[str, str], float] = defaultdict(float)
        largest, problems = 0.0, []
        for name in sorted({*stored.tensors, *computed.tensors}, key=str.encode):
            one, other = stored.tensors.get(name), computed.tensors.get(name)
            if name in _SCALER and self.recorded == "float16" != self.computed:
                continue  # computed in a precision that needs no scaler
            problem = self._unlike(name, one, other, computed)
            if problem:
                problems.append(problem)
            elif one is not None and other is not None and not same_bits(one, other):
                difference = _finite(one) - _finite(other)
                squares[_kind(name)] += float(difference.square().sum())
                if name.startswith("param/"):
                    largest = max(largest, float(difference.abs().max()))
        shares = {k: math.sqrt(v) / max(_size(computed, k), 1e-30) for k, v in squares.items() if v}
        buffers, optimizer = (
            max((share for kind, share in shares.items() if kind[0] == part), default=0.0)
            for part in ("buffer", "optim")
        )
        return Distance(math.sqrt(squares[_PARAMETERS]), largest, buffers, optimizer, problems)

    def _unlike(self, name: str, one: torch.Tensor | None, other: torch.Tensor | None, computed: State) -> str | None:
        """Why two tensors have no distance, or one that no rounding explains."""
        if one is None or other is None or one.shape != other.shape:
            described = ["absent" if t is None else list(t.shape) for t in (one, other)]
            return f"{name} is {described[0]} in the trace, {described[1]} when computed"
        recast = (COMPUTE_DTYPE[self.recorded], COMPUTE_DTYPE[self.computed])
        if one.dtype != other.dtype and (one.dtype, other.dtype) != recast:
            return f"{name} is {one.dtype} in the trace, {other.dtype} when computed"
        if name.startswith("scaler/") or not one.is_floating_point():
            return None if torch.equal(one, other) else f"{name} differs from the computed value"
        if computed.is_counter(name):
            near = abs(one.item() - other.item()) <= _COUNTER_TOLERANCE * abs(other.item())
            return None if near else f"{name} is {one.item()}, computed {other.item()}"
        strange = ~(one.isfinite() & other.isfinite())
        if bool(strange.any()) and not torch.equal(one[strange].nan_to_num(0.5), other[strange].nan_to_num(0.5)):
            return f"{name} is not finite in the trace where it is when computed, or the other way round"
        return None


_PARAMETERS = ("param", "")


def _identical(one: State, other: State) -> bool:
    return one.tensors.keys() == other.tensors.keys() and all(
        same_bits(tensor, other.tensors[name]) for name, tensor in one.tensors.items()
    )


def _finite(tensor: torch.Tensor) -> torch.Tensor:
    return torch.nan_to_num(tensor.double(), nan=0.0, posinf=0.0, neginf=0.0)


def _kind(name: str) -> tuple[str, str]:
    """What is one long vector: all parameters; each buffer; all momentum buffers; ..."""
    part, _, rest = name.partition("/")
    if part == "param":
        return _PARAMETERS
    return part, rest.rpartition("/")[2] if part == "optim" else rest


def _size(state: State, kind: tuple[str, str]) -> float:
    return math.sqrt(sum(float(_finite(t).square().sum()) for n, t in state.tensors.items() if _kind(n) == kind))


def update_size(before: State, after: State) -> float:
    """l2 of the parameters' update."""
    return math.sqrt(
        sum(float((after.tensors[n].double() - t.double()).norm()) ** 2 for n, t in before.tensors.items()
            if n.startswith("param/") and n in after.tensors and after.tensors[n].shape == t.shape)
    )  # fmt: skip

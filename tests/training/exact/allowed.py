"""Watching an exact step from below: which operations run, and whether every sum in them is exact."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

MOVES = {
    "_local_scalar_dense", "_record_function_enter_new", "_record_function_exit", "_to_copy", "_unsafe_view", "alias",
    "arange", "as_strided", "cat", "clone", "copy_", "detach", "empty", "empty_like", "expand", "fill_", "gather",
    "index", "lift_fresh", "masked_fill_", "new_empty", "new_empty_strided", "new_full", "new_zeros", "ones",
    "ones_like", "permute", "scatter", "scatter_", "select", "slice", "split", "squeeze", "stack", "t", "transpose",
    "unbind", "unsqueeze", "view", "where", "zero_", "zeros", "zeros_like",
}  # fmt: skip
"""Operations that copy, describe or rearrange elements."""
CHOICES = {
    "abs", "aminmax", "amax", "maximum", "clamp", "clamp_min", "clamp_max", "relu", "threshold_backward", "neg", "gt",
    "ge", "lt", "eq", "all", "round_", "bitwise_and", "bitwise_left_shift_", "bitwise_xor", "__xor__", "__and__",
    "__rshift__", "frexp",
}  # fmt: skip
"""Operations that select, compare, change a sign or an exponent, or act on whole numbers: no rounding."""
BASIC = {"add", "add_", "sub", "sub_", "mul", "mul_", "div", "sqrt", "sqrt_", "rsub"}
"""Element by element, rounded once, as IEEE 754 says."""
SUMS = {"mm", "bmm", "sum", "index_add_"}
"""Sums, which must be of grid points."""


class Watch(TorchDispatchMode):
    """Collects operations off the lists, fused scalings, divisions by numbers, and sums that could be rounded."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: set[str] = set()
        self.wrong: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = func.overloadpacket.__name__
        self.seen.add(name)
        out = func(*args, **kwargs)
        if name not in MOVES | CHOICES | BASIC | SUMS:
            self.wrong.append(f"{name} is on no list")
        if kwargs.get("alpha", 1) != 1:
            self.wrong.append(f"{name} with alpha")
        floating = isinstance(out, torch.Tensor) and out.is_floating_point()
        if name == "div" and not (isinstance(args[1], torch.Tensor) and args[1].dim()):
            self.wrong.append("a division by a number")
        if floating and out.dtype != torch.float64 and name in BASIC | SUMS and out.dim():
            self.wrong.append(f"{name} in {out.dtype}")
        if name in ("mm", "bmm"):
            self._check(bits(args[0], -1).amax() + bits(args[1], -2).amax(), args[0].shape[-1], name)
        elif name == "sum" and floating:
            over = args[1] if len(args) > 1 and args[1] else list(range(args[0].dim()))
            count = 1
            for dimension in over:
                count *= args[0].shape[dimension]
            moved = args[0].movedim(over, list(range(len(over)))).flatten(0, len(over) - 1)
            self._check(bits(moved, 0).amax(), count, name)
        elif name == "index_add_":
            self._check(bits(args[3], 0).amax(), len(args[3]), name)
        return out

    def _check(self, used: torch.Tensor, terms: int, name: str) -> None:
        needed = float(used) + (terms - 1).bit_length()
        if needed > 53:
            self.wrong.append(f"{name} of {terms} terms needs {needed} bits")


def bits(x: torch.Tensor, along: int) -> torch.Tensor:
    """Along one dimension: bits of the largest magnitude in units of the lowest bit any element uses."""
    mantissa, exponent = torch.frexp(x.double())
    whole = (mantissa.abs() * 2.0**53).to(torch.int64)
    lowest = torch.where(whole == 0, 1 << 60, whole & -whole)
    trailing = torch.frexp(lowest.double())[1] - 1
    unit = torch.where(whole == 0, 10_000, exponent - 53 + trailing).amin(along)
    largest = x.double().abs().amax(along)
    top = torch.frexp(largest)
    power = torch.where(top[0] == 0.5, top[1] - 1, top[1])  # a power of two needs no bit more than its exponent
    return torch.where(largest == 0, 0, power - unit)

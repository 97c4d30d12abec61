"""A State in another floating-point precision, for verifiers that compute in one."""

from __future__ import annotations

import torch

from trainwitness.core.state import State


def cast(state: State, dtype: torch.dtype) -> State:
    """Parameters, buffers and optimiser tensors in `dtype`; counters, integers and the scaler as they are."""
    return State({n: t if _kept(state, n) else t.to(dtype) for n, t in state.tensors.items()})


def _kept(state: State, name: str) -> bool:
    return not state.tensors[name].is_floating_point() or name.startswith("scaler/") or state.is_counter(name)


def rounding_of(computed: State, stored: State) -> tuple[float, float]:
    """(rounding, rest): how much of the parameters' error rounding `computed` to the stored precision explains.

    The error stored - computed is the sum of round(computed) - computed and stored - round(computed); these are the
    two parts' l2 norms.
    """
    rounding = rest = 0.0
    for name, exact in computed.part("param").items():
        kept = stored.tensors.get(f"param/{name}")
        if kept is not None and kept.shape == exact.shape:
            rounded = exact.to(kept.dtype)
            rounding += float((rounded.double() - exact.double()).norm()) ** 2
            rest += float((kept.double() - rounded.double()).norm()) ** 2
    return rounding**0.5, rest**0.5

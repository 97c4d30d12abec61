"""What can never be recomputed is said at the first step, not at verification."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils._pytree import tree_flatten
from torch.utils.data import DataLoader, IterableDataset

from trainwitness.core.canonical import tensor_bytes
from trainwitness.core.errors import NotCapturable
from trainwitness.core.numerics import Precision
from trainwitness.trace.rows import canonical_row
from trainwitness.training.live import Live

_ROWS_TRIED = 8


def check_model(model: nn.Module) -> None:
    """Refuses compiled modules and models without parameters."""
    for name, module in model.named_modules():
        if type(module).__name__ == "OptimizedModule" or getattr(module, "_compiled_call_impl", None) is not None:
            raise NotCapturable(
                f"{name or 'the model'} is compiled: its fused kernels differ from the step that a verifier computes",
                hint="record the model as it was before torch.compile",
            )
    if next(model.parameters(), None) is None:
        raise NotCapturable("the model has no parameters")


def check_not_compiling() -> None:
    """Refuses a compiled optimiser step."""
    if torch.compiler.is_compiling():
        raise NotCapturable(
            "the optimiser's step is being compiled", hint="call optimizer.step() outside torch.compile"
        )


def check_loader(loader: DataLoader[Any]) -> None:
    """Refuses loaders whose batches have no rows."""
    if isinstance(loader.dataset, IterableDataset) or not hasattr(loader.dataset, "__len__"):
        raise NotCapturable(
            f"{type(loader.dataset).__name__} has no numbered rows",
            hint="use a map-style data set (with __getitem__ and __len__)",
        )


def check_rows(loader: DataLoader[Any], indices: Any, rows: list[int], batch: Any) -> None:
    """Fetches rows of the first batch again: they must be what they were, in the data set and in the batch."""
    dataset = loader.dataset
    with _random_states_kept():
        for row in rows[:_ROWS_TRIED]:
            if canonical_row(dataset, row) != canonical_row(dataset, row):
                raise _unseeded(f"row {row} differs each time it is read")
        if loader.batch_sampler is None:
            again = loader.collate_fn(dataset[indices])
        else:
            again = loader.collate_fn([dataset[row] for row in rows])
    if not _equal(again, batch):
        raise _unseeded("reading the first batch again gives other values")


def _unseeded(what: str) -> NotCapturable:
    return NotCapturable(
        f"{what}: an unseeded augmentation cannot be recomputed",
        hint="make the augmentation a function of (seed, epoch, index)",
    )


def _equal(one: Any, other: Any) -> bool:
    (ones, spec), (others, other_spec) = tree_flatten(one), tree_flatten(other)
    if spec != other_spec:
        return False
    for a, b in zip(ones, others, strict=True):
        if isinstance(a, torch.Tensor):
            if not isinstance(b, torch.Tensor) or not _same_values(a, b.to(a.device)):
                return False
        elif isinstance(a, np.ndarray):
            if not np.array_equal(a, b):
                return False
        elif a != b:
            return False
    return True


def _same_values(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Equal, counting undefined values (NaN) as equal to each other."""
    return a.dtype == b.dtype and a.shape == b.shape and bool(((a == b) | ((a != a) & (b != b))).all())


@contextmanager
def _random_states_kept() -> Iterator[None]:
    states = random.getstate(), np.random.get_state(), torch.get_rng_state()
    try:
        yield
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])
        torch.set_rng_state(states[2])


def _digest(tensor: torch.Tensor) -> bytes:
    return hashlib.sha256(tensor_bytes(tensor.detach().cpu()).data).digest()


class OutsideChanges:
    """Notices parameters and buffers that change between steps: g would not know of it.

    PyTorch counts the writes to a tensor, which costs nothing to compare. Writes through `.data` escape the count,
    so the first steps compare values too.
    """

    _FULL_CHECKS = 6

    def __init__(self, live: Live) -> None:
        self._live = live
        self._versions: dict[str, tuple[int, int]] = {}
        self._digests: dict[str, bytes] | None = None
        self._full = self._FULL_CHECKS

    def note(self) -> None:
        """The State is now what a step left."""
        tensors = self._watched()
        self._versions = {name: (id(t), t._version) for name, t in tensors.items()}
        if self._full > 0:
            self._digests = {name: _digest(t) for name, t in tensors.items()}

    def changed(self) -> str | None:
        """The name of a tensor that was written to since `note`."""
        if not self._versions:
            return None
        tensors = self._watched()
        for name, tensor in tensors.items():
            if self._versions.get(name) != (id(tensor), tensor._version):
                return name
        if self._digests is not None:
            self._full -= 1
            digests, self._digests = self._digests, self._digests if self._full > 0 else None
            return next((name for name, tensor in tensors.items() if _digest(tensor) != digests[name]), None)
        return None

    def check(self, step: int) -> None:
        """Raises if the State is no longer what `note` saw."""
        name = self.changed()
        if name is not None:
            raise NotCapturable(
                f"step {step}: {name} was changed outside the optimiser's step",
                hint="do not write to the model between steps, and evaluate it in eval() mode",
            )

    def _watched(self) -> dict[str, torch.Tensor]:
        return self._live.model_tensors()


def parameter_precision(model: nn.Module) -> Precision:
    """That of the parameters, which autocast may lower; half-precision parameters are refused."""
    dtype = next((parameter.dtype for parameter in model.parameters()), torch.float32)
    if dtype not in (torch.float32, torch.float64):
        raise NotCapturable(
            f"the model's parameters are {dtype}", hint="keep them in float32 and use autocast for mixed precision"
        )
    return "float64" if dtype == torch.float64 else "float32"

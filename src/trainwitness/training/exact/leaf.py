"""leaf: 32 bytes that bind one exact step: its unrounded gradient sums, the outputs, and the State after it."""

from __future__ import annotations

import functools
import hashlib
import math
import os
import struct
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain

import numpy as np
import torch

from trainwitness.core.canonical import DTYPE_NAMES, Bytes, array_header, tensor_bytes
from trainwitness.training.exact.witness import Witness

_DOMAIN = b"trainwitness/exact-step/1\0"
_BLOCK = 1 << 20
_MANY = 8 * _BLOCK
"""From this many bytes on, blocks are hashed by several threads."""
UNFINISHED = 2
"""Leaves that a recorder lets be on their way: one being copied while another is hashed. Each takes memory."""


class PendingLeaf:
    """A leaf on its way: what it binds is copied, so the next step may begin; `result` waits for the hashing."""

    def __init__(
        self, head: bytes, arrays: Sequence[tuple[bytes, int]], digests: Sequence[Future[list[bytes]]]
    ) -> None:
        self._head, self._arrays, self._digests = head, arrays, digests
        self._result: bytes | None = None

    def result(self) -> bytes:
        """The 32 bytes, when every block is hashed."""
        if self._result is None:
            digests = chain.from_iterable(part.result() for part in self._digests)
            sha = hashlib.sha256(self._head)
            for described, blocks in self._arrays:
                sha.update(described)
                for _ in range(blocks):
                    sha.update(next(digests))
            self._result = sha.digest()
        return self._result


def begin_leaf(step: int, witnesses: Iterable[Witness], state: Mapping[str, torch.Tensor]) -> PendingLeaf:
    """SHA-256 over the step's number, then name, type, shape and block digests of every array.

    Arrays are, per micro-batch, the outputs and every gradient sum by the number of its operation in the forward
    pass, its part and limb; then the tensors of the State in the order of their names. What lies on a GPU is copied
    there first and hashed while the GPU goes on; what lies on the CPU is hashed at once.
    """
    arrays: dict[str, torch.Tensor] = {}
    for number, witness in enumerate(witnesses):
        if witness.outputs is not None:
            arrays[f"{number}/outputs"] = witness.outputs + 0.0
        for (call, part), sums in sorted(witness.sums.items()):
            arrays[f"{number}/{call}/{part}"] = sums
    for name in sorted(state, key=str.encode):
        arrays[name] = state[name]
    contents, arrived = _contents(list(arrays.values()))
    described = [
        (struct.pack("<I", len(name.encode())) + name.encode() + array_header(DTYPE_NAMES[array.dtype], array.shape))
        for name, array in arrays.items()
    ]
    blocks = [[content[at : at + _BLOCK] for at in range(0, max(len(content), 1), _BLOCK)] for content in contents]
    pending = PendingLeaf(
        _DOMAIN + struct.pack("<Q", step),
        list(zip(described, map(len, blocks), strict=True)),
        _digests(list(chain.from_iterable(blocks)), arrived),
    )
    if arrived is None:
        pending.result()
    return pending


def _contents(arrays: list[torch.Tensor]) -> tuple[list[Bytes], torch.cuda.Event | None]:
    """The arrays' bytes; those on a device come in one transfer, and are there when the event has happened."""
    away = [k for k, array in enumerate(arrays) if array.device.type != "cpu" and array.dtype == torch.float64]
    if not away:
        return [tensor_bytes(array.cpu()) for array in arrays], None
    joined, arrived = _fetched(torch.cat([arrays[k].detach().reshape(-1) for k in away]))
    sizes = np.cumsum([8 * arrays[k].numel() for k in away])[:-1]
    found = dict(zip(away, np.split(tensor_bytes(joined), sizes), strict=True))
    others = {k: tensor_bytes(array.to("cpu", copy=True)) for k, array in enumerate(arrays) if k not in found}
    return [(found | others)[k] for k in range(len(arrays))], arrived


def _fetched(copy: torch.Tensor) -> tuple[torch.Tensor, torch.cuda.Event]:
    """A tensor that nothing else uses, on its way to the CPU beside the GPU's other work."""
    here = torch.empty(copy.shape, dtype=copy.dtype, pin_memory=True)
    beside, arrived = _stream(copy.device), torch.cuda.Event(blocking=True)  # type: ignore[no-untyped-call]
    beside.wait_stream(torch.cuda.current_stream(copy.device))
    with torch.cuda.stream(beside):
        here.copy_(copy, non_blocking=True)
        copy.record_stream(beside)
        arrived.record(beside)
    return here, arrived


@functools.cache
def _stream(device: torch.device) -> torch.cuda.Stream:
    return torch.cuda.Stream(device)  # type: ignore[no-untyped-call]


@functools.cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_threads(), thread_name_prefix="leaf")


def _threads() -> int:
    """One core is left to the step."""
    return max((os.cpu_count() or 1) - 1, 1)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)  # threads do not survive a fork


def _digests(blocks: list[Bytes], arrived: torch.cuda.Event | None) -> list[Future[list[bytes]]]:
    """The digests of the blocks, several together, in order."""
    total = sum(map(len, blocks))
    if arrived is None and total < _MANY:
        done: Future[list[bytes]] = Future()
        done.set_result(_hashed(blocks, None))
        return [done]
    size = len(blocks) if total < _MANY else math.ceil(len(blocks) / (2 * _threads()))
    parts = [blocks[at : at + size] for at in range(0, len(blocks), size)]
    return [_pool().submit(_hashed, part, arrived) for part in parts]


def _hashed(blocks: list[Bytes], arrived: torch.cuda.Event | None) -> list[bytes]:
    if arrived is not None:
        arrived.synchronize()
    return [hashlib.sha256(block.data).digest() for block in blocks]

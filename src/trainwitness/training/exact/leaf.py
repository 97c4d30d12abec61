"""leaf: 32 bytes that bind one exact step: its unrounded gradient sums, the outputs, and the State after it."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch

from trainwitness.core.canonical import DTYPE_NAMES, Bytes, array_header, tensor_bytes
from trainwitness.training.exact.witness import Witness

_DOMAIN = b"trainwitness/exact-step/1\0"
_BLOCK = 1 << 20
_MANY = 8 * _BLOCK
"""From this many bytes on, blocks are hashed by several threads."""


def leaf(step: int, witnesses: Iterable[Witness], state: Mapping[str, torch.Tensor]) -> bytes:
    """SHA-256 over the step's number, then name, type, shape and block digests of every array.

    Arrays are, per micro-batch, the outputs and every gradient sum by the number of its operation in the forward
    pass, its part and limb; then the tensors of the State in the order of their names.
    """
    arrays: dict[str, torch.Tensor] = {}
    for number, witness in enumerate(witnesses):
        if witness.outputs is not None:
            arrays[f"{number}/outputs"] = witness.outputs + 0.0
        for (call, part), sums in sorted(witness.sums.items()):
            arrays[f"{number}/{call}/{part}"] = sums
    for name in sorted(state, key=str.encode):
        arrays[name] = state[name]
    contents = _contents(list(arrays.values()))
    blocks = [content[at : at + _BLOCK] for content in contents for at in range(0, max(len(content), 1), _BLOCK)]
    digests = iter(_digests(blocks))
    sha = hashlib.sha256(_DOMAIN + struct.pack("<Q", step))
    for (name, array), content in zip(arrays.items(), contents, strict=True):
        encoded = name.encode()
        sha.update(struct.pack("<I", len(encoded)) + encoded)
        sha.update(array_header(DTYPE_NAMES[array.dtype], array.shape))
        for _ in range(0, max(len(content), 1), _BLOCK):
            sha.update(next(digests))
    return sha.digest()


def _contents(arrays: list[torch.Tensor]) -> list[Bytes]:
    """The arrays' bytes; those on a device come in one transfer."""
    away = [k for k, array in enumerate(arrays) if array.device.type != "cpu" and array.dtype == torch.float64]
    found: dict[int, Bytes] = {}
    if away:
        joined = tensor_bytes(torch.cat([arrays[k].detach().reshape(-1) for k in away]).cpu())
        sizes = np.cumsum([8 * arrays[k].numel() for k in away])[:-1]
        found = dict(zip(away, np.split(joined, sizes), strict=True))
    return [found[k] if k in found else tensor_bytes(array.cpu()) for k, array in enumerate(arrays)]


def _digests(blocks: list[Bytes]) -> list[bytes]:
    if sum(map(len, blocks)) < _MANY:
        return [_digest(block) for block in blocks]
    with ThreadPoolExecutor() as pool:
        return list(pool.map(_digest, blocks))


def _digest(block: Bytes) -> bytes:
    return hashlib.sha256(block.data).digest()

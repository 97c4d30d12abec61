"""State: everything a step reads and writes."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Mapping
from dataclasses import dataclass

import torch

from trainwitness.core.canonical import DTYPE_NAMES, array_header, tensor_bytes

_DOMAIN = b"trainwitness/state/v1\0"


@dataclass(frozen=True)
class State:
    """Named CPU tensors. The part before the first `/` of a name says what it is:

    - `param/NAME` a parameter, `buffer/NAME` a buffer (batch norm statistics),
    - `optim/NAME/KEY` what the optimiser remembers for a parameter (momentum, Adam's moments),
    - `scaler/KEY` the loss scaler of float16 training.

    The random state is not among them: every micro-batch starts from a seed derived from the run's seed, the
    step and the micro-batch, so it is recomputed and cannot be crafted (docs/decisions/0003).

    >>> State({"param/w": torch.zeros(2)}).digest().hex()[:8]
    'b1c99fa1'
    """

    tensors: Mapping[str, torch.Tensor]

    def digest(self) -> bytes:
        """SHA-256 over every tensor in the order of names (as UTF-8 bytes): u32 length, name, then the array."""
        sha = hashlib.sha256(_DOMAIN)
        for name in sorted(self.tensors, key=str.encode):
            tensor, encoded = self.tensors[name], name.encode()
            sha.update(struct.pack("<I", len(encoded)) + encoded)
            sha.update(array_header(DTYPE_NAMES[tensor.dtype], tensor.shape))
            sha.update(tensor_bytes(tensor).data)
        return sha.digest()

    def part(self, prefix: str) -> dict[str, torch.Tensor]:
        """The tensors of one part (`param`, `buffer`, `optim`, `scaler`), without the prefix."""
        start = prefix + "/"
        return {n.removeprefix(start): t for n, t in self.tensors.items() if n.startswith(start)}

    def is_counter(self, name: str) -> bool:
        """Whether an entry of the optimiser counts steps, or the like, instead of following a parameter."""
        if not name.startswith("optim/") or self.tensors[name].dim():
            return False
        _, parameter, key = name.split("/", 2)
        owner = self.tensors.get(f"param/{parameter}")
        return key == "step" or owner is None or owner.dim() > 0

    def clone(self) -> State:
        """A copy that shares no memory with this one."""
        return State({name: tensor.clone() for name, tensor in self.tensors.items()})

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return sum(t.numel() * t.element_size() for t in self.tensors.values())

    @property
    def parameter_bytes(self) -> int:
        """Bytes of the parameters alone."""
        return sum(t.numel() * t.element_size() for t in self.part("param").values())

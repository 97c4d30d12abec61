"""Dropout from a counter: the same mask on every device."""

from __future__ import annotations

import hashlib

import torch

from trainwitness.training.exact.witness import Witness

_STEPS = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))
_GOLDEN = 0x9E3779B97F4A7C15


def random_words(seed: int, call: int, count: int, device: torch.device) -> torch.Tensor:
    """`count` random 63-bit whole numbers: SplitMix64's output function over a counter with a hashed beginning.

    Whole-number multiplication modulo 2^64, shifts and exclusive or have no rounding to differ in.
    """
    digest = hashlib.sha256(f"trainwitness/dropout/1 {seed} {call}".encode()).digest()
    words = torch.arange(1, count + 1, dtype=torch.int64, device=device)
    words = words * _signed(_GOLDEN) + int.from_bytes(digest[:8], "little", signed=True)
    for shift, factor in _STEPS:
        words = (words ^ _shifted(words, shift)) * _signed(factor)
    return _shifted(words ^ _shifted(words, 31), 1)


def mask(x: torch.Tensor, share: float, witness: Witness) -> torch.Tensor:
    """0 with probability `share`, otherwise 1 / (1 - share), for every element of `x`."""
    witness.drawn = True
    words = random_words(witness.seed, witness.call(), x.numel(), x.device)
    kept = words >= min(round(share * 2**63), 2**63 - 1)
    return kept.to(torch.float64).mul_(1 / (1 - share) if share < 1 else 0.0).view(x.shape)


def _shifted(words: torch.Tensor, by: int) -> torch.Tensor:
    """A shift to the right that brings in zeros."""
    return (words >> by) & ((1 << (64 - by)) - 1)


def _signed(word: int) -> int:
    return word - (1 << 64) if word >> 63 else word

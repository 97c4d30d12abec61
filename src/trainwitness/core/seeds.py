"""Named seeds and portable random bits: the same numbers on every platform and library version."""

from __future__ import annotations

import hashlib
import json

import numpy as np
import numpy.typing as npt

_DOMAIN = b"trainwitness/seed/v1\0"


def derive(seed: int, *names: str | int) -> int:
    """A 63-bit seed for one named purpose: the first 8 bytes of SHA-256 over the JSON list `[seed, *names]`.

    >>> derive(0, "order", 3) != derive(0, "order", 4)
    True
    """
    text = json.dumps([seed, *names], separators=(",", ":"), ensure_ascii=True)
    digest = hashlib.sha256(_DOMAIN + text.encode()).digest()
    return int.from_bytes(digest[:8], "little") >> 1


def random_bits(seed: int, count: int) -> npt.NDArray[np.uint64]:
    """`count` random 64-bit words: the raw output of the counter-based generator Philox-4x64-10 keyed by `seed`.

    numpy's distributions may change between releases; the raw stream of a bit generator may not.
    """
    return np.random.Philox(key=seed).random_raw(count)


def permutation(seed: int, count: int) -> npt.NDArray[np.int64]:
    """A permutation of `range(count)`: the stable ascending order of `count` random words."""
    return np.argsort(random_bits(seed, count), kind="stable")


def gaussian(seed: int, count: int) -> npt.NDArray[np.float64]:
    """`count` standard normal values by Box and Muller from pairs of random words.

    The logarithm and the cosine may differ in the last bit between mathematical libraries; bits above float32 agree.
    """
    pairs = (random_bits(seed, 2 * ((count + 1) // 2)) >> np.uint64(11)).astype(np.float64).reshape(2, -1)
    radius = np.sqrt(-2.0 * np.log((pairs[0] + 1) * 2.0**-53))
    angle = 2 * np.pi * 2.0**-53 * pairs[1]
    return np.concatenate([radius * np.cos(angle), radius * np.sin(angle)])[:count]


def uniform(seed: int, count: int) -> npt.NDArray[np.float64]:
    """`count` values in [-1, 1): the upper 53 bits of each random word, scaled. Every operation is exact."""
    upper = (random_bits(seed, count) >> np.uint64(11)).astype(np.float64)
    return upper * 2.0**-52 - 1.0

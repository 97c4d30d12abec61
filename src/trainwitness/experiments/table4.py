"""Table 4: is there another batch with the same exact gradient, among all batches of a small domain?"""

from __future__ import annotations

import time
from math import comb
from typing import Any

from torch import nn

from trainwitness.core.seeds import derive
from trainwitness.experiments.experiment import Setting
from trainwitness.forging.exhaustive.search import Found, Search
from trainwitness.tasks.initial import initialise

PIXELS, CLASSES, HIDDEN = 4, 3, 10
FINISHED = {2: 5, 3: 3, 4: 2, 5: 2, 6: 2}
"""v to the largest batch the paper searched; it found nothing in any of these cells."""
TARGET_SIZES = {2: 5, 3: 5, 4: 5, 5: 4, 6: 4}
EVERY_PAIR = {2: 5, 3: 4, 4: 3, 5: 2, 6: 2}
"""v to the largest batch for which all pairs of batches are compared, on a CPU; a GPU does more."""
EVERY_PAIR_CUDA = {2: 5, 3: 4, 4: 3, 5: 3, 6: 2}
SEEDS = 10


def models(pixels: int) -> dict[str, nn.Module]:
    """The paper's two models; softmax regression also without bias, as its proofs have it."""
    return {
        "softmax": nn.Linear(pixels, CLASSES),
        "softmax, no bias": nn.Linear(pixels, CLASSES, bias=False),
        "10 ReLU": nn.Sequential(nn.Linear(pixels, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, CLASSES)),
    }


def values(count: int) -> list[int]:
    """`count` grey levels as the paper cuts them: 0, 127, 255 for three."""
    return [255 * k // (count - 1) for k in range(count)]


def run(setting: Setting) -> dict[str, Any]:
    rows: list[dict[str, Any]] = []
    measured: dict[str, Any] = {}
    every_pair = {2: 4, 3: 2} if setting.quick else EVERY_PAIR_CUDA if setting.cuda else EVERY_PAIR
    for name in models(PIXELS):
        for v in (2, 3) if setting.quick else TARGET_SIZES:
            search = _search(setting, name, v, PIXELS)
            for size in range(1, (6 - v if setting.quick else TARGET_SIZES[v]) + 1):
                setting.advance(f"{name}, v = {v}, b = {size}")
                row, raw = _cell(search, size, _targets(setting, v, size), every=size <= every_pair[v])
                rows.append({"model": name, "d": PIXELS, "v": v, "paper": _paper(v, size), **row})
                measured[f"{name}/{v}/{size}"] = raw
        setting.advance(f"{name}, v = 256, d = 2")
        levels = 16 if setting.quick else 256
        row, raw = _cell(_search(setting, name, levels, 2), 2, 20, every=setting.cuda or setting.quick)
        rows.append({"model": name, "d": 2, "v": levels, "paper": "impractical", **row})
        measured[f"{name}/d=2/v={levels}/2"] = raw
    if not setting.quick:
        rows += _initialisations(setting)
    return {"rows": rows, "notes": _notes(rows), "measured": measured}


def _search(setting: Setting, name: str, v: int, pixels: int, seed: int = 0) -> Search:
    model = models(pixels)[name]
    initialise(model, derive(seed, "init"))
    return Search(model, values(v), pixels, device=setting.device)


def _targets(setting: Setting, v: int, size: int) -> int:
    if setting.quick:
        return 5
    return 20 if size < 5 else {2: 20, 3: 10, 4: 2}[v]


def _paper(v: int, size: int) -> str:
    return "none found" if size <= FINISHED[v] else "?"


def _cell(search: Search, size: int, targets: int, *, every: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    started = time.perf_counter()
    every_core = search.cores(size) if every else None
    found = [search.doubles(search.target(size, number)) for number in range(targets)]
    judged = [*found, *([every_core] if every_core else [])]
    row: dict[str, Any] = {
        "b": size, "batches": comb(search.examples, size), "targets": targets,
        "with a double": sum(one.equal > 0 for one in found),
        "colliding pairs": search.pairs(size) if every else None,
        "of disjoint batches": every_core.equal if every_core else None,
        "undecided": sum(one.answers["undecided"] for one in judged),
        "seconds": time.perf_counter() - started,
    }  # fmt: skip
    return row, {"targets": [_raw(one) for one in found if one.answers], "every": _raw(every_core)}


def _raw(found: Found | None) -> dict[str, Any] | None:
    if found is None:
        return None
    return {
        "answers": dict(found.answers), "reasons": dict(found.reasons), "nearest": found.nearest,
        "examples": {reason: list(pair) for reason, pair in found.examples.items()},
    }  # fmt: skip


def _initialisations(setting: Setting) -> list[dict[str, Any]]:
    """How much the ReLU network's collisions depend on its weights."""
    rows = []
    for seed in range(1, SEEDS):
        setting.advance(f"10 ReLU, v = 2, initialisation {seed}")
        row, _ = _cell(_search(setting, "10 ReLU", 2, PIXELS, seed), 4, 0, every=True)
        rows.append({"model": f"10 ReLU, seed {seed}", "d": PIXELS, "v": 2, "paper": "none found", **row})
    return rows


def _notes(rows: list[dict[str, Any]]) -> list[str]:
    undecided = sum(row["undecided"] for row in rows)
    return [
        "batches are sets of b distinct examples; gradients are those of the real numbers at float32 weights, pixels "
        "q / 255 with q = floor(255 k / (v - 1))",
        "with a double: sampled targets for which another batch has exactly the same gradient",
        "colliding pairs: over all batches, where every pair was compared; a pair that shares examples collides "
        "without them too, so it counts once more under disjoint batches of a smaller size",
        f"every candidate was decided by whole numbers or by intervals of 256 to 4096 bits; undecided: {undecided}",
    ]

"""efficient-greedy: the same search, from gradients computed once per example (Kong et al. 2023).

Candidates are scored on a narrow sketch of the gradients; the best few are scored exactly.
"""

from __future__ import annotations

import numpy as np
import torch

from trainwitness.core.seeds import derive
from trainwitness.forging.forger import Choice
from trainwitness.forging.problem import Problem, Sketch

CANDIDATES = 100_000
WIDTH = 256
BEST = 20
_AT_ONCE = 4096


def forge(problem: Problem, candidates: int = CANDIDATES) -> Choice:
    sketch = Sketch.of(problem, WIDTH)
    pool, wanted = sketch.pool.float(), sketch.wanted.float()
    size, kept, tried = len(problem.positions), list[tuple[float, np.ndarray]](), 0
    rng = np.random.Generator(np.random.Philox(key=derive(problem.seed, "candidates", problem.batch.step)))
    while tried < candidates and not (tried and problem.late):
        count = min(_AT_ONCE, candidates - tried)
        choices = _subsets(rng, count, len(pool), size)
        sums = torch.nn.functional.embedding_bag(torch.from_numpy(choices).to(pool.device), pool, mode="sum")
        distances = (sums - wanted).square().sum(1)
        found = torch.topk(distances, min(BEST, count), largest=False)
        kept += [(float(d), choices[int(k)]) for d, k in zip(found.values, found.indices, strict=True)]
        kept = sorted(kept, key=lambda item: item[0])[:BEST]
        tried += count
    best, least, scored = problem.batch, float("inf"), 0
    for _, choice in kept:
        batch = problem.batch_with([problem.pool[k] for k in choice])
        error, scored = problem.error(batch), scored + 1
        if error < least:
            best, least = batch, error
        if problem.late:
            break
    return Choice(best, gradients=sketch.computed + scored * problem.batch.size, candidates=tried)


def _subsets(rng: np.random.Generator, count: int, total: int, size: int) -> np.ndarray:
    """`count` random subsets of `size` out of `total`: the places of the smallest of random keys."""
    keys = rng.random((count, total), dtype=np.float32)
    return np.argpartition(keys, size - 1, axis=1)[:, :size] if size < total else np.argsort(keys, axis=1)

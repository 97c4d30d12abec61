"""Joining halves: gradients of examples add up, so batches with a wanted sum are found from pairs and triples."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from trainwitness.core.errors import UsageError
from trainwitness.forging.exhaustive.keys import Keys

LARGEST = 5
AT_ONCE = 10_000_000
"""Sums that are sorted at a time on a CPU; a GPU takes twenty times as many."""


@dataclass(frozen=True, eq=False)
class Sums:
    """All sets of `size` examples, ordered by the sum of their keys."""

    values: torch.Tensor
    members: torch.Tensor
    """[sets, size], ascending."""

    @classmethod
    def of(cls, keys: Keys, size: int) -> Sums:
        every = torch.arange(len(keys), dtype=torch.int32, device=keys.values.device)
        members = torch.combinations(every, size).view(-1, size) if size else every.new_empty(1, 0)
        values, order = keys.values[members.long()].sum(1).sort()
        return cls(values, members[order])


class Join:
    """Finds batches by their sum, among all batches of distinct examples."""

    def __init__(self, keys: Keys) -> None:
        self.keys, self._sums = keys, dict[int, Sums]()

    def sums(self, size: int) -> Sums:
        if size not in self._sums:
            self._sums[size] = Sums.of(self.keys, size)
        return self._sums[size]

    def like(self, batch: torch.Tensor) -> torch.Tensor:
        """Every batch, one per line, whose sum is that of `batch` as far as keys can tell; `batch` itself is one."""
        size = len(batch)
        wanted, window = self.keys.values[batch.long()].sum(), Keys.window(size)
        if size < LARGEST:
            left = self.sums(size // 2)
            found = self._pairs(wanted - left.values, left.members, self.sums(size - size // 2), window)
        elif size == LARGEST:
            found = torch.cat([*self._triples(wanted, window)])
        else:
            raise UsageError(f"batches of {size}", hint=f"the search is for at most {LARGEST} examples")
        different: torch.Tensor = torch.unique(found, dim=0)
        return different

    def _triples(self, wanted: torch.Tensor, window: int) -> Iterator[torch.Tensor]:
        """Pairs with triples; of each triple the pair is looked up, so that triples need no memory."""
        pairs = self.sums(2)
        for example in range(len(self.keys)):
            found = self._pairs(wanted - self.keys.values[example] - pairs.values, pairs.members, pairs, window)
            single = torch.full((len(found), 1), example, dtype=found.dtype, device=found.device)
            yield _distinct(torch.cat([single, found], 1))

    def _pairs(self, queries: torch.Tensor, members: torch.Tensor, right: Sums, window: int) -> torch.Tensor:
        low = torch.searchsorted(right.values, queries - window)
        high = torch.searchsorted(right.values, queries + window, right=True)
        query, place = _expand(low, high)
        return _distinct(torch.cat([members[query], right.members[place]], 1))


def collisions(join: Join, size: int, at_once: int | None = None) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """All pairs of batches of `size` whose sums agree as far as keys can tell, and that share no example.

    Colliding batches that share examples collide without them too, so these pairs of smaller batches are all there
    is to know. The sums are never held all at once: they are taken range by range, and sorted.
    """
    left, right = join.sums(size // 2), join.sums(size - size // 2)
    window = Keys.window(size)
    device_factor = 20 if right.values.is_cuda else 1
    edges = _edges(left, right, at_once or AT_ONCE * device_factor)
    for low, high in itertools.pairwise(edges):
        yield from _in_range(left, right, low, high, window)


def _in_range(
    left: Sums, right: Sums, low: int, high: int, window: int
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Pairs whose smaller sum lies in [low, high)."""
    first = torch.searchsorted(right.values, low - left.values)
    last = torch.searchsorted(right.values, high + window - left.values)
    if left is right:
        first = torch.maximum(first, torch.arange(1, len(first) + 1, device=first.device))
    one, two = _expand(first, last)
    if left.members.shape[1]:  # each set once: all of one half before all of the other
        once = left.members[one, -1] < right.members[two, 0]
        if left is right:
            once |= right.members[two, -1] < left.members[one, 0]
        one, two = one[once], two[once]
    values, order = (left.values[one] + right.values[two]).sort()
    apart = 1
    while apart < len(values):
        near = torch.nonzero(values[apart:] - values[:-apart] <= window).squeeze(1)
        near = near[values[near] < high]
        if not len(near):
            return
        halves = [order[near], order[near + apart]]
        a, b = (torch.cat([left.members[one[k]], right.members[two[k]]], 1) for k in halves)
        disjoint = (a[:, :, None] != b[:, None, :]).flatten(1).all(1)
        yield a[disjoint], b[disjoint]
        apart += 1


def _edges(left: Sums, right: Sums, at_once: int) -> list[int]:
    """Bounds of ranges with about `at_once` sums each, from a sample of the sums."""
    pieces = -(-len(left.values) * len(right.values) // at_once)
    sample = [half.values[:: max(1, len(half.values) // 1000)] for half in (left, right)]
    values = (sample[0][:, None] + sample[1][None, :]).flatten().sort().values
    inner = [int(values[len(values) * k // pieces]) for k in range(1, pieces)]
    ends = [int(half.values[0]) for half in (left, right)], [int(half.values[-1]) for half in (left, right)]
    return [sum(ends[0]), *sorted(set(inner) - {sum(ends[0])}), sum(ends[1]) + 1]


def _expand(low: torch.Tensor, high: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """(k, j) for every k and every j from low[k] to high[k] - 1."""
    counts = (high - low).clamp(min=0)
    query = torch.repeat_interleave(counts)
    starts = counts.cumsum(0) - counts
    place = torch.arange(len(query), device=low.device) - (starts - low)[query]
    return query, place


def _distinct(batches: torch.Tensor) -> torch.Tensor:
    """Those without a repeated example, each in ascending order."""
    ordered = batches.sort(1).values
    return ordered[(ordered[:, 1:] != ordered[:, :-1]).all(1)]

"""Rows of a user's PyTorch data set, which of them make a loader's batches, and batches as a trace stores them."""

from __future__ import annotations

import base64
import binascii
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

from torch.utils.data import DataLoader, IterableDataset
from torch.utils.data import Dataset as TorchDataset

from trainwitness.commitments.merkle import Frontier
from trainwitness.core.batch import Batch
from trainwitness.core.canonical import row_bytes
from trainwitness.core.errors import NotCapturable, TraceDamaged
from trainwitness.trace.format import DataFacts, ExactBatch, StepRecord


def canonical_row(dataset: TorchDataset[Any], index: int) -> bytes:
    """The bytes of one row: `dataset.canonical_row(index)` where there is one, else `dataset[index]`.

    A data set that augments or normalises should offer `canonical_row`, giving the fields before that.
    """
    own = getattr(dataset, "canonical_row", None)
    fields = own(index) if own is not None else dataset[index]
    try:
        return row_bytes(_fields(fields))
    except TypeError as error:
        raise NotCapturable(
            f"row {index} of {type(dataset).__name__}: {error}",
            hint="give the data set a method canonical_row(index) that returns arrays, numbers or text",
        ) from error


def _fields(item: object) -> Iterator[object]:
    if isinstance(item, dict):
        item = [part for key in sorted(item) for part in (key, item[key])]
    if isinstance(item, (tuple, list)):
        for part in item:
            yield from _fields(part)
    else:
        yield item


def data_facts(dataset: TorchDataset[Any]) -> DataFacts:
    """The root over every row of a data set with a length."""
    count = len(dataset)  # type: ignore[arg-type]
    tree = Frontier(canonical_row(dataset, index) for index in range(count))
    return DataFacts(
        name=type(dataset).__name__, rows=count, row_schema="as returned by the data set", root=tree.root().hex()
    )


class IndexedRows(TorchDataset[Any]):
    """A data set that returns (index, item); works in loader workers."""

    def __init__(self, dataset: TorchDataset[Any]) -> None:
        self.dataset = dataset

    def __len__(self) -> int:
        return len(self.dataset)  # type: ignore[arg-type]

    def __getitem__(self, index: Any) -> tuple[Any, Any]:
        return index, self.dataset[index]

    def __getitems__(self, indices: list[Any]) -> list[tuple[Any, Any]]:
        fetch = getattr(self.dataset, "__getitems__", None)
        items = fetch(indices) if fetch is not None else [self.dataset[index] for index in indices]
        return list(zip(indices, items, strict=True))


class IndexedCollate:
    """Collates (index, item) pairs into (indices, batch); a class so that spawned workers can receive it."""

    def __init__(self, collate: Any, *, batched: bool) -> None:
        self.collate, self.batched = collate, batched

    def __call__(self, pairs: Any) -> tuple[Any, Any]:
        if not self.batched:  # the sampler gives whole batches of indices, the data set whole batches
            indices, item = pairs
            return indices, self.collate(item)
        return [index for index, _ in pairs], self.collate([item for _, item in pairs])


class Skipping:
    """A (batch) sampler without its first `skip` entries; keeps those it left out."""

    def __init__(self, sampler: Any, skip: int) -> None:
        self.sampler, self.skip = sampler, skip
        self.skipped: list[Any] = []

    def __iter__(self) -> Iterator[Any]:
        # Lazily: a random sampler draws its seed at the first entry, after the loader has drawn its own.
        entries = iter(self.sampler)
        self.skipped = list(itertools.islice(entries, self.skip))
        yield from entries

    def __len__(self) -> int:
        return max(len(self.sampler) - self.skip, 0)


def indexed_loader(loader: DataLoader[Any], skip: int) -> tuple[DataLoader[Any], Skipping]:
    """The same loader, yielding (indices, batch) and leaving out its first `skip` batches."""
    if isinstance(loader.dataset, IterableDataset):
        raise NotCapturable(
            f"{type(loader.dataset).__name__} is an iterable data set: its batches have no row indices",
            hint="use a map-style data set (with __getitem__ and __len__)",
        )
    batched = loader.batch_sampler is not None
    skipping = Skipping(loader.batch_sampler if batched else loader.sampler, skip)
    common = {
        name: getattr(loader, name)
        for name in (
            "num_workers",
            "pin_memory",
            "timeout",
            "worker_init_fn",
            "multiprocessing_context",
            "generator",
            "prefetch_factor",
        )
    }
    order = {"batch_sampler": skipping} if batched else {"batch_size": None, "sampler": skipping}
    made: DataLoader[Any] = DataLoader(
        IndexedRows(loader.dataset), collate_fn=IndexedCollate(loader.collate_fn, batched=batched), **common, **order
    )
    return made, skipping


def row_numbers(indices: Any) -> list[int]:
    """Row indices as whole numbers."""
    try:
        sequence = indices.tolist() if hasattr(indices, "tolist") else indices
        listed = list(sequence) if isinstance(sequence, Sequence) else [sequence]
        numbers = [index.__index__() for index in listed]
    except (TypeError, AttributeError) as error:
        raise NotCapturable(
            f"a sampler gave {indices!r} instead of row numbers", hint="index rows with whole numbers"
        ) from error
    if any(number < 0 for number in numbers):
        raise NotCapturable(f"a sampler gave the negative row number {min(numbers)}")
    return numbers


def record_batch(record: StepRecord) -> Batch:
    """The batch of a step."""
    return stored_batch(record.step, record)


def stored_batch(step: int, record: StepRecord | ExactBatch) -> Batch:
    """The batch of a step from its rows as stored."""
    try:
        carried = {int(k): base64.b64decode(row, validate=True) for k, row in record.carried.items()}
    except (ValueError, binascii.Error) as error:
        raise TraceDamaged(f"step {step}: a carried row is not base64: {error}") from error
    size = sum(map(len, record.rows))
    if any(not 0 <= k < size for k in carried):
        raise TraceDamaged(f"step {step}: a carried row for a position outside the batch of {size}")
    return Batch(step, record.epoch, tuple(map(tuple, record.rows)), carried)

"""Property `data_committed`: the rows are those of a commitment, and how early that was fixed."""

from __future__ import annotations

import mmap
from collections.abc import Callable, Mapping
from pathlib import Path

from trainwitness.commitments.commitment import HASH_BYTES, Commitment, Committed, bound_seed, commit
from trainwitness.commitments.merkle import Frontier, leaf_hash
from trainwitness.commitments.sources import rows_of
from trainwitness.core.batch import Batch
from trainwitness.core.errors import EvidenceDamaged
from trainwitness.core.verdict import Grade, Property, PropertyName
from trainwitness.tasks.dataset import Dataset
from trainwitness.trace.format import Manifest
from trainwitness.verification.contents import Contents

_SHOWN = 5


class CommitmentCheck:
    """Looks up every row that is recomputed in the commitment, if one is given; names those that are not in it."""

    def __init__(self, given: Committed | None, dataset: Dataset, manifest: Manifest, *, own_root: bool) -> None:
        self._given, self._dataset, self._manifest = given, dataset, manifest
        self._contents = Contents(dataset)
        self._missing: list[str] = []  # the first few, by name
        self._missing_count = 0
        self._checked: set[int] = set()
        self._leaf: Callable[[int], bytes] | None = None
        if given is None:
            return
        if given.leaves is not None:
            self._leaf = _leaves(given.leaves, given.commitment)
        elif own_root and manifest.data.root == given.commitment.data.root:
            self._leaf = lambda row: leaf_hash(dataset.row(row))
        self._all_rows = own_root  # the verifier's copy is the committed one, row by row

    def note(self, batch: Batch) -> None:
        """Notes the rows of a step."""
        self._contents.note(batch)
        if self._given is None or self._leaf is None or (self._all_rows and not batch.carried):
            return
        rows = [row for micro in batch.rows for row in micro]
        for position, row in enumerate(rows):
            content = batch.carried.get(position)
            if content is None and (self._all_rows or row in self._checked):
                continue
            if row >= self._given.commitment.data.rows or not self._is(row, content):
                self._missing_count += 1
                if len(self._missing) < _SHOWN:
                    self._missing.append(f"step {batch.step}, row {row}" + (" (carried)" if content else ""))
            elif content is None:
                self._checked.add(row)

    def _is(self, row: int, content: bytes | None) -> bool:
        if content is None:
            if row >= len(self._dataset):
                return False
            content = self._dataset.row(row)
        assert self._leaf is not None
        return self._leaf(row) == leaf_hash(content)

    def result(self, others: Mapping[PropertyName, Property], *, complete: bool) -> Property:
        """The property, after all steps; `others` are those found so far."""
        if self._contents.conflict:
            return _refuted(f"{self._contents.conflict}: no commitment holds both")
        if self._given is None:
            return Property(standing="unknown", why="no commitment was given")
        commitment, data = self._given.commitment, self._manifest.data
        if (data.root, data.rows) != (commitment.data.root, commitment.data.rows):
            return _refuted(f"the trace states data root {data.root}, the commitment {commitment.data.root}")
        if self._missing:
            more = f" and {self._missing_count - _SHOWN} more" if self._missing_count > _SHOWN else ""
            return _refuted(f"not in the commitment: {'; '.join(self._missing)}{more}")
        if self._leaf is None:
            why = "this copy of the data is not the committed one; which rows differ only the leaf hashes would tell"
            return Property(standing="unknown", why=why)
        if not complete:
            return Property(standing="unknown", why="only some of the steps were looked at")
        why, grades = f"every row used is in commitment {commitment.digest[:16]}", list[Grade](["committed"])
        if self._given.nonce is not None:
            problem = self._unbound(commitment, self._given.nonce, others)
            if problem is not None:
                return problem
            why += (
                "; it and the nonce give the seed: it was fixed before the training if the nonce was given out later"
            )
            grades.append("before_nonce")
        if self._given.key is not None:
            if commit(rows_of(self._dataset), key=self._given.key).sorted != commitment.sorted:
                return _refuted(
                    "the sorted tree does not hold the rows of the data tree: its absence proofs are void"
                )
            why += "; its sorted tree holds the same rows"
        return Property(standing="established", why=why, grades=grades)

    def _unbound(
        self, commitment: Commitment, nonce: str, others: Mapping[PropertyName, Property]
    ) -> Property | None:
        """Why the nonce does not seed the training, if it does not."""
        expected = bound_seed(commitment, nonce)
        if self._manifest.seed != expected:
            return _refuted(
                f"the trace's seed {self._manifest.seed} is not what the commitment and the nonce give ({expected}): "
                "the data may have been fixed after the training"
            )
        needed: tuple[PropertyName, ...] = ("initialised", "scheduled")
        for name in needed:
            standing = others[name].standing if name in others else "unknown"
            if standing != "established":
                return Property(standing="unknown", why=f"the seed is bound to the nonce, but {name} is {standing}")
        return None


def _leaves(path: Path, commitment: Commitment) -> Callable[[int], bytes]:
    """Leaf hashes by row number, from a file that must have the commitment's root."""
    expected = commitment.data.rows * HASH_BYTES
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if size == expected else None
    except (OSError, ValueError) as error:
        raise EvidenceDamaged(f"{path}: cannot be read: {error}") from error
    if content is None:
        raise EvidenceDamaged(f"{path}: {size} bytes, {expected} are the leaf hashes of {commitment.data.rows} rows")
    tree = Frontier()
    for at in range(0, expected, HASH_BYTES):
        tree.append_hash(content[at : at + HASH_BYTES])
    if tree.root().hex() != commitment.data.root:
        raise EvidenceDamaged(f"{path}: these leaf hashes have root {tree.root().hex()}, not the commitment's")
    return lambda row: content[row * HASH_BYTES : (row + 1) * HASH_BYTES]


def _refuted(why: str) -> Property:
    return Property(standing="refuted", why=why)

"""One content per row number over the whole trace."""

from __future__ import annotations

import hashlib

from trainwitness.core.batch import Batch
from trainwitness.tasks.dataset import Dataset


class Contents:
    """Remembers which content each carried row number had; memory grows with the carried rows and row numbers only.

    A trace that gives one number two contents fits no data set and no commitment, whatever the verifier's copy holds.
    """

    def __init__(self, dataset: Dataset) -> None:
        self._dataset = dataset
        self._carried: dict[int, tuple[bytes, int]] = {}
        self._plain: set[int] = set()
        self.conflict: str | None = None

    def note(self, batch: Batch) -> None:
        """Notes the rows of a step; keeps the first contradiction."""
        rows = [row for micro in batch.rows for row in micro]
        carried = {k: content for k, content in batch.carried.items() if not self._own(rows[k], content)}
        plain = {row for k, row in enumerate(rows) if k not in carried} if carried else set(rows)
        for k, content in sorted(carried.items()):
            digest = hashlib.sha256(content).digest()
            known, step = self._carried.setdefault(rows[k], (digest, batch.step))
            if known != digest:
                self._contradict(f"row {rows[k]} has two contents, in steps {step} and {batch.step}")
        both = [row for row in plain if row in self._carried] if self._carried else []
        both += [rows[k] for k in carried if rows[k] in self._plain]
        self._plain |= plain
        if both:
            where = f"that carried in step {self._carried[min(both)][1]} and the data set's own"
            self._contradict(f"row {min(both)} has two contents, {where}")

    def _own(self, row: int, content: bytes) -> bool:
        return row < len(self._dataset) and content == self._dataset.row(row)

    def _contradict(self, conflict: str) -> None:
        self.conflict = self.conflict or conflict

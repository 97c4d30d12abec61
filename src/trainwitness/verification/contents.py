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
        self._plain: dict[int, int] = {}
        self.conflict: str | None = None

    def note(self, batch: Batch) -> None:
        """Notes the rows of a step; keeps the first contradiction."""
        rows = [row for micro in batch.rows for row in micro]
        for position, row in enumerate(rows):
            content = batch.carried.get(position)
            if content is None or (row < len(self._dataset) and content == self._dataset.row(row)):
                self._plain.setdefault(row, batch.step)
                other = self._carried[row][1] if row in self._carried else None
            else:
                digest = hashlib.sha256(content).digest()
                known, step = self._carried.setdefault(row, (digest, batch.step))
                other = step if known != digest else self._plain.get(row)
            if other is not None and self.conflict is None:
                self.conflict = f"row {row} has two contents, in steps {other} and {batch.step}"

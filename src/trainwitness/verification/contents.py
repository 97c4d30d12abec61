"""One content per row number over the whole trace."""

from __future__ import annotations

import hashlib

from trainwitness.core.batch import Batch


class Contents:
    """Remembers which content each carried row number had; memory grows with the carried rows and row numbers only.

    A trace that gives one number two contents fits no data set and no commitment, whatever the verifier's copy holds.
    """

    def __init__(self) -> None:
        self._carried: dict[int, tuple[bytes, int]] = {}
        self._plain: dict[int, int] = {}
        self.conflict: str | None = None

    def note(self, batch: Batch) -> None:
        """Notes the rows of a step; keeps the first contradiction."""
        rows = [row for micro in batch.rows for row in micro]
        for position, row in enumerate(rows):
            content = batch.carried.get(position)
            if content is None:
                self._plain.setdefault(row, batch.step)
                other = self._carried.get(row)
                differs = other is not None
            else:
                digest = hashlib.sha256(content).digest()
                other = self._carried.setdefault(row, (digest, batch.step))
                differs = other[0] != digest
                if not differs and row in self._plain:
                    other, differs = (b"", self._plain[row]), True
            if differs and other is not None and self.conflict is None:
                self.conflict = f"row {row} has two contents, in steps {other[1]} and {batch.step}"

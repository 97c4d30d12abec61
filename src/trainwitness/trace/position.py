"""Where a recording stands in its data: which epoch, and how much of it was used."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from typing import Any

from trainwitness.core.errors import TraceMismatch
from trainwitness.trace.format import StepRecord
from trainwitness.trace.rows import row_numbers


class Position:
    """The epoch, the number of its batches used so far, and a digest over their rows."""

    def __init__(self) -> None:
        self.start(0)

    def start(self, epoch: int) -> None:
        """Begins an epoch."""
        self.epoch, self.batches, self._seen = epoch, 0, hashlib.sha256()

    def note(self, rows: Sequence[int]) -> None:
        """One more batch was used."""
        self.batches += 1
        self._seen.update(json.dumps(list(rows)).encode())

    def check_skipped(self, skipped: Iterable[Any]) -> None:
        """The batches a resumed loader leaves out must be those that were used."""
        seen = hashlib.sha256()
        for indices in skipped:
            seen.update(json.dumps(row_numbers(indices)).encode())
        if seen.digest() != self._seen.digest():
            raise TraceMismatch(
                f"epoch {self.epoch}: the loader's order is not the recorded one",
                hint="resume with the same loader, sampler and seed",
            )

    def replay(self, record: StepRecord) -> None:
        """Goes past a recorded step."""
        resume = record.resume
        rows = record.rows
        if record.epoch != self.epoch:
            self.start(record.epoch)
            rows = rows[-resume.batches :] if resume is not None and resume.batches else rows
        for micro in rows:
            self.note(micro)
        if resume is not None and resume.epoch != self.epoch:
            self.start(resume.epoch)

"""Are the rows of a batch rows of the data set, and inside the domain?"""

from __future__ import annotations

from trainwitness.core.batch import Batch
from trainwitness.tasks.dataset import Dataset

_SHOWN = 3


def row_problems(batch: Batch, dataset: Dataset) -> list[str]:
    """Why a batch cannot be computed: rows that do not exist, are malformed, or lie outside the domain."""
    rows = [row for micro in batch.rows for row in micro]
    problems = []
    if not rows or not all(batch.rows):
        problems.append("an empty batch")
    if len(rows) > len(dataset):
        problems.append(f"a batch of {len(rows)} rows, more than the data set has")
    outside = sorted({row for row in rows if row >= len(dataset)})
    if outside:
        problems.append(f"rows {_some(outside)} are not in the data set of {len(dataset)} rows")
    for position, content in sorted(batch.carried.items()):
        try:
            one_input, label = dataset.parse(content)
        except ValueError as error:
            problems.append(f"the row carried at position {position} is no row of this data set: {error}")
            continue
        bad = dataset.domain.outside(one_input[None], label[None])
        problems += [f"the row carried at position {position} is outside the domain: {why}" for _, why in bad]
    return problems


def replaced_rows(batch: Batch, dataset: Dataset) -> list[int]:
    """Positions whose carried content is not the verifier's own row of that number."""
    rows = [row for micro in batch.rows for row in micro]
    return [
        k
        for k, content in sorted(batch.carried.items())
        if rows[k] >= len(dataset) or dataset.row(rows[k]) != content
    ]


class DomainCheck:
    """Rows of the verifier's own data set that lie outside its domain: found once, looked up per batch."""

    def __init__(self, dataset: Dataset) -> None:
        self._outside = dict(dataset.domain.outside(dataset.inputs, dataset.labels))

    def __call__(self, batch: Batch) -> list[str]:
        if not self._outside:
            return []
        rows = sorted({row for micro in batch.rows for row in micro if row in self._outside})
        return [f"row {row} is outside the domain: {self._outside[row]}" for row in rows[:_SHOWN]]


def _some(rows: list[int]) -> str:
    return ", ".join(map(str, rows[:_SHOWN])) + (", ..." if len(rows) > _SHOWN else "")

"""What a forgery shows: some of its examples beside those they replaced, as plain data for people to look at."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
import numpy.typing as npt

from trainwitness.core.batch import Batch
from trainwitness.core.forgery import Forgery
from trainwitness.tasks.dataset import Dataset

MOST = 12


def examples(honest: Batch, forgery: Forgery, dataset: Dataset, most: int = MOST) -> list[dict[str, Any]]:
    """The first replaced positions: row, label and, where inputs are bytes, their shape and pixels (base64).

    Nothing of a forgery that is refused anyway: its inputs may be no rows at all.
    """
    if forgery.problems:
        return []
    return [
        {"step": forgery.step, "position": position}
        | {"original": _example(honest, position, dataset), "forged": _example(forgery.batch, position, dataset)}
        for position in sorted(forgery.replaced)[:most]
    ]


def _example(batch: Batch, position: int, dataset: Dataset) -> dict[str, Any]:
    row = [row for micro in batch.rows for row in micro][position]
    carried = batch.carried.get(position)
    values, label = (dataset.inputs[row], dataset.labels[row]) if carried is None else dataset.parse(carried)
    where = {"row": row} if carried is None else {"carried": True}
    return where | {"label": np.asarray(label).tolist()} | _pixels(values)


def _pixels(values: npt.NDArray[Any]) -> dict[str, Any]:
    if values.dtype != np.uint8:
        return {}
    return {"shape": list(values.shape), "pixels": base64.b64encode(np.ascontiguousarray(values).tobytes()).decode()}

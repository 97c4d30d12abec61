"""How good a restoration is (paper 004, section 4)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from trainwitness.leakage.labels.restorer import Restored
from trainwitness.leakage.labels.whole_counts import Counts, Floats


def le_acc(restored: Restored, truth: Counts) -> float:
    """LeAcc: over classes, how often presence is predicted rightly."""
    return float((restored.present == (truth > 0)).mean())


def ln_acc(restored: Restored, truth: Counts) -> float | None:
    """LnAcc: over classes, how often the count is predicted rightly; None for methods that do not count."""
    return None if restored.counts is None else float((restored.counts == truth).mean())


def counts_of(labels: npt.NDArray[np.int64], classes: int) -> Counts:
    """True counts of a batch."""
    return np.bincount(labels, minlength=classes).astype(np.int64)


def cosine(found: Floats, truth: Floats) -> float:
    """Mean cosine similarity, line by line."""
    norms = np.linalg.norm(found, axis=-1) * np.linalg.norm(truth, axis=-1)
    return float(((found * truth).sum(-1) / np.maximum(norms, 1e-300)).mean())

"""Restorer: a method of label restoration by name, and what it returns."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from trainwitness.core.errors import UsageError
from trainwitness.leakage.labels.final_layer import FinalLayer, two_classes
from trainwitness.leakage.labels.whole_counts import Counts, Floats, confidence, whole_counts

RESTORERS: dict[str, str] = {
    "idlg": "rows of the gradient whose sum is negative (Zhao et al.); presence only",
    "gradinversion": "rows of the gradient whose least element is negative (Yin et al.); presence only",
    "rlg": "classes that a hyperplane separates from all others (Dang et al.); presence only",
    "ilrg": "class-wise embeddings and a system of linear equations (Ma et al.)",
    "pooled": "one embedding for the batch, from all rows of the gradient",
    "auxiliary": "mean probabilities of other images of the same kind",
    "likelihood": "the likeliest counts, from the gradients of other labelled images",
}
"""Name to what the method does; the module has the same name."""
WITHOUT_BIAS = ("idlg", "gradinversion", "rlg")
NEED_AUXILIARY = ("auxiliary", "likelihood")


@dataclass(frozen=True, eq=False)
class Auxiliary:
    """What an attacker knows of other examples of the same distribution at this State, one line each."""

    embeddings: Floats
    labels: npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Restored:
    """Which classes were in the batch; for methods that count, how many examples of each and how sure that is."""

    present: npt.NDArray[np.bool_]
    counts: Counts | None = None
    estimate: Floats | None = None
    """The counts before they were made whole."""
    confidence: Floats | None = None

    @classmethod
    def whole(cls, estimate: Floats, batch_size: int, spread: float | None = None) -> Restored:
        """The whole counts nearest to an estimate."""
        counts = whole_counts(estimate, batch_size)
        return cls(counts > 0, counts, estimate, confidence(estimate, counts, spread))


class Restorer(Protocol):
    """A module of this folder."""

    def restore(
        self, gradient: FinalLayer, layer: FinalLayer, batch_size: int, auxiliary: Auxiliary | None = None
    ) -> Restored:
        """The labels of a batch of `batch_size` from its mean gradient by the last layer."""
        ...


def find(name: str) -> Restorer:
    """A method by name."""
    if name not in RESTORERS:
        raise UsageError(f"unknown method {name!r}", hint=f"methods: {', '.join(RESTORERS)}")
    return importlib.import_module(f"trainwitness.leakage.labels.{name}")


def restore(
    name: str, gradient: FinalLayer, layer: FinalLayer, batch_size: int, auxiliary: Auxiliary | None = None
) -> Restored:
    """The labels of a batch by one method; a single logit counts as two classes.

    >>> layer = FinalLayer(np.zeros((3, 2)), np.zeros(3))
    >>> seen = FinalLayer(np.ones((3, 2)) * [[1 / 3], [1 / 3], [-2 / 3]], np.array([1 / 3, 1 / 3, -2 / 3]))
    >>> restore("pooled", seen, layer, batch_size=4).counts.tolist()
    [0, 0, 4]
    """
    if gradient.weight.shape != layer.weight.shape:
        raise UsageError(f"a gradient of {gradient.weight.shape} for a last layer of {layer.weight.shape}")
    if batch_size < 1:
        raise UsageError(f"a batch of {batch_size} examples")
    whole_layer, whole_gradient = two_classes(layer, gradient)
    return find(name).restore(whole_gradient, whole_layer, batch_size, auxiliary)


def needed(auxiliary: Auxiliary | None) -> Auxiliary:
    """The auxiliary examples, which this method cannot do without."""
    if auxiliary is None or not len(auxiliary.labels):
        raise UsageError("this method needs auxiliary images", hint="use pooled or ilrg, or give such images")
    return auxiliary

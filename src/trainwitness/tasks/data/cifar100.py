"""CIFAR-100 with its 100 fine labels, from `cifar-100-python` (without unpickling) or from `cifar100_subset.npz`."""

from __future__ import annotations

from pathlib import Path

from trainwitness.tasks.data.cifar10 import read_batch, read_npz
from trainwitness.tasks.data.files import Source, data_folder, find, is_available
from trainwitness.tasks.data.images import image_dataset
from trainwitness.tasks.dataset import Dataset

CLASSES = 100
_CANDIDATES = ("cifar100_subset.npz", "cifar-100-python/train")


def load(data: Path | None = None) -> tuple[Dataset, Dataset]:
    """Rows of 3x32x32 pixels. The subset has 1,117 training and 916 test rows, the full set 50,000 and 10,000."""
    found = find(data_folder(data, "cifar100"), "cifar100", _CANDIDATES)
    if found.suffix == ".npz":
        parts = read_npz(found, CLASSES)
    else:
        parts = [read_batch(found.with_name(part), b"fine_labels", CLASSES) for part in ("train", "test")]
    (train, train_labels), (test, test_labels) = parts
    return (
        image_dataset("cifar100", train, train_labels, CLASSES),
        image_dataset("cifar100-test", test, test_labels, CLASSES),
    )


def _check(folder: Path) -> None:
    find(folder, "cifar100", _CANDIDATES)


SOURCE = Source("cifar100", load, lambda data: is_available(_check, "cifar100", data))

"""CIFAR-10 from `cifar-10-batches-py` (without unpickling) or from `cifar10_subset.npz`."""

from __future__ import annotations

import pickletools
from pathlib import Path

import numpy as np
import numpy.typing as npt

from trainwitness.tasks.data.files import Source, damaged, data_folder, find, is_available, read_bytes
from trainwitness.tasks.data.images import Pixels, image_dataset
from trainwitness.tasks.dataset import Dataset

Labels = npt.NDArray[np.int64]

_CANDIDATES = ("cifar10_subset.npz", "cifar-10-batches-py/data_batch_1", "data_batch_1")
_IMAGE_BYTES = 3 * 32 * 32
_LIMIT = 1 << 30


def load(data: Path | None = None) -> tuple[Dataset, Dataset]:
    """Rows of 3x32x32 pixels. The subset has 10,000 training and 1,017 test rows, the full set 50,000 and 10,000."""
    found = find(data_folder(data, "cifar10"), "cifar10", _CANDIDATES)
    parts = read_npz(found, classes=10) if found.suffix == ".npz" else _batches(found.parent)
    (train, train_labels), (test, test_labels) = parts
    return image_dataset("cifar10", train, train_labels), image_dataset("cifar10-test", test, test_labels)


def read_npz(path: Path, classes: int) -> list[tuple[Pixels, Labels]]:
    """Training and test part of an archive with x_train, y_train, x_test, y_test."""
    parts = []
    try:
        with np.load(path, allow_pickle=False) as archive:
            for part in ("train", "test"):
                pixels, labels = archive[f"x_{part}"], archive[f"y_{part}"]
                shaped = pixels.shape[1:] == (32, 32, 3) and pixels.dtype == np.uint8
                _check_part(path, shaped, pixels, labels, classes)
                parts.append((pixels.transpose(0, 3, 1, 2), labels.astype(np.int64)))
    except Exception as error:  # numpy and zipfile raise a dozen kinds of them on damaged archives
        raise damaged(path, f"cannot be read: {error}") from error
    return parts


def _batches(folder: Path) -> list[tuple[Pixels, Labels]]:
    train = [read_batch(find(folder, "cifar10", [f"data_batch_{k}"])) for k in range(1, 6)]
    test = read_batch(find(folder, "cifar10", ["test_batch"]))
    joined = tuple(np.concatenate(arrays) for arrays in zip(*train, strict=True))
    return [(joined[0], joined[1]), test]


def read_batch(path: Path, key: bytes = b"labels", classes: int = 10) -> tuple[Pixels, Labels]:
    """Images and labels of one official batch file of CIFAR-10, or of CIFAR-100 (whose key is `fine_labels`).

    The file is a pickle, and a pickle can run code when loaded, so it is not loaded: its instructions are listed
    (`pickletools.genops` executes nothing), the pixels are the one operand of n x 3072 bytes and the labels the
    run of integers that follows the key.
    """
    pixels, labels, in_labels = b"", [], False
    try:
        for opcode, operand, _ in pickletools.genops(read_bytes(path, _LIMIT)):
            if isinstance(operand, (str, bytes, bytearray)):
                raw = operand.encode("latin-1") if isinstance(operand, str) else bytes(operand)
                in_labels = raw == key
                pixels = raw if len(raw) > len(pixels) else pixels
            elif in_labels and isinstance(operand, int) and "INT" in opcode.name:
                labels.append(operand)
    except (ValueError, UnicodeEncodeError, OverflowError) as error:
        raise damaged(path, f"is not a CIFAR batch: {error}") from error
    if not pixels or len(pixels) % _IMAGE_BYTES:
        raise damaged(path, "holds no n x 3072 bytes of pixels")
    images = np.frombuffer(pixels, np.uint8).reshape(-1, 3, 32, 32)
    _check_part(path, True, images, np.array(labels, np.int64), classes)
    return images, np.array(labels, np.int64)


def _check_part(path: Path, shaped: bool, pixels: Pixels, labels: npt.NDArray[np.generic], classes: int) -> None:
    if not shaped or len(pixels) != len(labels) or len(pixels) == 0:
        raise damaged(path, f"images {pixels.dtype}{list(pixels.shape)} with {len(labels)} labels")
    if not (int(labels.min()) >= 0 and int(labels.max()) < classes):
        raise damaged(path, f"labels from {labels.min()} to {labels.max()}, expected 0..{classes - 1}")


def _check(folder: Path) -> None:
    find(folder, "cifar10", _CANDIDATES)


SOURCE = Source("cifar10", load, lambda data: is_available(_check, "cifar10", data))

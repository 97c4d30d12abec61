"""MNIST from its four IDX files, plain or gzip'd."""

from __future__ import annotations

import math
import struct
from pathlib import Path

import numpy as np
import numpy.typing as npt

from trainwitness.tasks.data.files import Source, damaged, data_folder, find, is_available, read_bytes
from trainwitness.tasks.data.images import image_dataset
from trainwitness.tasks.dataset import Dataset

_FOLDERS = ("mnist", "MNIST/raw", "MNIST", ".")


def load(data: Path | None = None) -> tuple[Dataset, Dataset]:
    """60,000 training and 10,000 test rows of 1x28x28 pixels."""
    folder = data_folder(data, "mnist")
    return _part(folder, "train", "mnist"), _part(folder, "t10k", "mnist-test")


def _part(folder: Path, prefix: str, name: str) -> Dataset:
    images_path, labels_path = (_file(folder, prefix, kind) for kind in ("images-idx3", "labels-idx1"))
    images, labels = read_idx(images_path, 3), read_idx(labels_path, 1)
    if len(images) != len(labels):
        raise damaged(labels_path, f"{len(labels)} labels for {len(images)} images")
    if images.shape[1:] != (28, 28):
        raise damaged(images_path, f"images of {images.shape[1:]}, expected (28, 28)")
    if labels.max(initial=0) > 9:
        raise damaged(labels_path, f"a label of {labels.max()}, expected 0..9")
    return image_dataset(name, images[:, None], labels)


def _file(folder: Path, prefix: str, kind: str) -> Path:
    names = [f"{prefix}-{kind}-ubyte", f"{prefix}-{kind.replace('-idx', '.idx')}-ubyte"]
    candidates = [f"{sub}/{name}{end}" for sub in _FOLDERS for name in names for end in ("", ".gz")]
    return find(folder, "mnist", candidates)


def read_idx(path: Path, dimensions: int) -> npt.NDArray[np.uint8]:
    """An IDX file of unsigned bytes: 0x00000800 + dimensions, each size as big-endian u32, then the elements."""
    content = read_bytes(path)
    header = 4 + 4 * dimensions
    if len(content) < header:
        raise damaged(path, f"{len(content)} bytes, too short for an IDX header")
    magic, *shape = struct.unpack_from(f">{1 + dimensions}I", content)
    if magic != 0x800 + dimensions:
        raise damaged(path, f"magic number {magic:#010x}, expected {0x800 + dimensions:#010x}")
    if len(content) - header != math.prod(shape) or shape[0] == 0:
        raise damaged(path, f"{len(content) - header} bytes of data, the header says {shape}")
    return np.frombuffer(content, np.uint8, offset=header).reshape(shape)


def _check(folder: Path) -> None:
    for prefix in ("train", "t10k"):
        for kind in ("images-idx3", "labels-idx1"):
            _file(folder, prefix, kind)


SOURCE = Source("mnist", load, lambda data: is_available(_check, "mnist", data))

"""Loaders of data sets: every layout, and damage that names its file."""

from __future__ import annotations

import gzip
import json
import pickle
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from trainwitness.core.canonical import row_bytes
from trainwitness.core.errors import DataDamaged, DataMissing, UsageError
from trainwitness.tasks.data import adult, cifar10, cifar100, digits, imdb, mnist
from trainwitness.tasks.dataset import Dataset
from trainwitness.tasks.domain import FiniteReals, IntegerBox


def idx(array: np.ndarray) -> bytes:
    return struct.pack(f">{1 + array.ndim}I", 0x800 + array.ndim, *array.shape) + array.astype(np.uint8).tobytes()


def write_mnist(folder: Path, *, zipped: bool = False, separator: str = "-") -> np.ndarray:
    folder.mkdir(parents=True, exist_ok=True)
    images = np.random.default_rng(0).integers(0, 256, (5, 28, 28))
    for part in ("train", "t10k"):
        for kind, array in (("images", images), ("labels", np.arange(5))):
            content = idx(array)
            path = folder / f"{part}-{kind}{separator}idx{array.ndim}-ubyte{'.gz' if zipped else ''}"
            path.write_bytes(gzip.compress(content) if zipped else content)
    return images


@pytest.mark.parametrize("layout", ["mnist", "MNIST/raw", "."])
@pytest.mark.parametrize("zipped", [False, True])
def test_mnist_layouts(tmp_path: Path, layout: str, zipped: bool) -> None:
    images = write_mnist(tmp_path / layout, zipped=zipped, separator="." if zipped else "-")
    train, test = mnist.load(tmp_path)
    assert np.array_equal(train.inputs[:, 0], images)
    assert test.labels.tolist() == [0, 1, 2, 3, 4]
    assert mnist.SOURCE.available(tmp_path)


@pytest.mark.parametrize(
    ("name", "damage", "message"),
    [
        ("train-images-idx3-ubyte", lambda b: b[:-1], "the header says"),
        ("train-images-idx3-ubyte", lambda b: b[:3], "too short"),
        ("train-images-idx3-ubyte", lambda b: b"\xff" + b[1:], "magic number"),
        ("train-images-idx3-ubyte", lambda b: b[:8] + b"\xff\xff\xff\xff" + b[12:], "the header says"),
        ("train-labels-idx1-ubyte", lambda b: b[:-1] + b"\x0b", "a label of 11"),
        ("train-labels-idx1-ubyte", lambda b: idx(np.arange(4)), "4 labels for 5 images"),
    ],
)
def test_damaged_mnist_names_the_file(
    tmp_path: Path, name: str, damage: Callable[[bytes], bytes], message: str
) -> None:
    write_mnist(tmp_path)
    (tmp_path / name).write_bytes(damage((tmp_path / name).read_bytes()))
    with pytest.raises(DataDamaged, match=message) as caught:
        mnist.load(tmp_path)
    assert name in caught.value.message


def test_a_damaged_gzip_is_told_as_such(tmp_path: Path) -> None:
    write_mnist(tmp_path, zipped=True)
    path = tmp_path / "train-labels-idx1-ubyte.gz"
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(DataDamaged, match="train-labels"):
        mnist.load(tmp_path)


def test_missing_data_names_the_files_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRAINWITNESS_DATA", raising=False)
    for source in (mnist.SOURCE, cifar10.SOURCE, cifar100.SOURCE, adult.SOURCE, imdb.SOURCE):
        with pytest.raises(DataMissing, match="looked for"):
            source.load(tmp_path)
        with pytest.raises(DataMissing, match="not a folder"):
            source.load(tmp_path / "absent")
        with pytest.raises(DataMissing, match="no data folder"):
            source.load(None)
        assert not source.available(tmp_path)
        assert not source.available(None)
    assert digits.SOURCE.available(None)


class Bomb:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return (Path.touch, (Path("executed"),))


def write_cifar(folder: Path, protocol: int = 2, **extra: object) -> np.ndarray:
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (4, 3072), dtype=np.uint8)
    for name in (*(f"data_batch_{k}" for k in range(1, 6)), "test_batch"):
        batch = {b"batch_label": b"x", b"labels": [6, 9, 0, 4], b"data": pixels, b"filenames": [b"a.png"], **extra}
        (folder / name).write_bytes(pickle.dumps(batch, protocol))
    return pixels


@pytest.mark.parametrize("protocol", [2, 4, 5])
def test_cifar_batches_are_read_without_unpickling(
    tmp_path: Path, protocol: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    pixels = write_cifar(tmp_path / "cifar-10-batches-py", protocol, evil=Bomb())
    train, test = cifar10.load(tmp_path)
    assert len(train) == 20
    assert np.array_equal(test.inputs.reshape(4, -1), pixels)
    assert test.labels.tolist() == [6, 9, 0, 4]
    assert not (tmp_path / "executed").exists()


@pytest.mark.parametrize(
    "content", [b"", b"\x80\x02N.", b"junk", pickle.dumps({b"labels": [1], b"data": b"x" * 3000})]
)
def test_damaged_cifar_batches(tmp_path: Path, content: bytes) -> None:
    write_cifar(tmp_path)
    (tmp_path / "data_batch_3").write_bytes(content)
    with pytest.raises(DataDamaged, match="data_batch_3"):
        cifar10.load(tmp_path)


def test_cifar_subset_archive(tmp_path: Path) -> None:
    x, y = np.arange(2 * 32 * 32 * 3, dtype=np.uint8).reshape(2, 32, 32, 3), np.array([1, 2], np.uint8)
    np.savez(tmp_path / "cifar10_subset.npz", x_train=x, y_train=y, x_test=x[:1], y_test=y[:1])
    train, _ = cifar10.load(tmp_path)
    assert train.inputs.shape == (2, 3, 32, 32)
    assert train.inputs[1, 2, 3, 4] == x[1, 3, 4, 2]
    np.savez(tmp_path / "cifar10_subset.npz", x_train=np.array([Bomb()]), y_train=y, x_test=x[:1], y_test=y[:1])
    with pytest.raises(DataDamaged, match="cifar10_subset"):
        cifar10.load(tmp_path)


def test_cifar_100_has_its_fine_labels(tmp_path: Path) -> None:
    (tmp_path / "cifar-100-python").mkdir()
    pixels = np.random.default_rng(0).integers(0, 256, (3, 3072), dtype=np.uint8)
    for name in ("train", "test"):
        batch = {b"filenames": [b"a"], b"fine_labels": [99, 0, 18], b"coarse_labels": [1, 2, 3], b"data": pixels}
        (tmp_path / "cifar-100-python" / name).write_bytes(pickle.dumps(batch, 2))
    train, test = cifar100.load(tmp_path)
    assert train.labels.tolist() == test.labels.tolist() == [99, 0, 18]
    assert train.domain.outside(train.inputs, train.labels) == []
    x, y = pixels.reshape(3, 32, 32, 3), np.array([1, 99, 100])
    np.savez(tmp_path / "cifar100_subset.npz", x_train=x, y_train=y, x_test=x, y_test=y)
    with pytest.raises(DataDamaged, match=r"expected 0\.\.99"):
        cifar100.load(tmp_path)


ADULT = (
    "39, State-gov, 77516, Bachelors, 13, Never-married, Adm-clerical, Not-in-family, White, Male, 2174, 0, 40, "
    "United-States, <=50K"
)


def write_adult(folder: Path, line: str = ADULT) -> None:
    folder.mkdir(exist_ok=True)
    (folder / "adult.data").write_text(f"{ADULT}\n{line}\n\n")
    (folder / "adult.test").write_text(f"|1x3 Cross validator\n{ADULT.replace('<=50K', '>50K')}.\n\n")


def test_adult_encoding(tmp_path: Path) -> None:
    write_adult(tmp_path / "adult")
    train, test = adult.load(tmp_path)
    assert train.inputs[0].tolist() == [39, 7, 77516, 9, 13, 4, 1, 1, 4, 1, 2174, 0, 40, 39]
    assert (train.labels.tolist(), test.labels.tolist()) == ([0, 0], [1])
    assert all(list(field.values) == sorted(field.values) for field in adult.FIELDS)


@pytest.mark.parametrize("line", [ADULT[:30], ADULT.replace("39,", "old,"), ADULT.replace("Male", "X"), ADULT + "K"])
def test_damaged_adult_names_the_line(tmp_path: Path, line: str) -> None:
    write_adult(tmp_path, line)
    with pytest.raises(DataDamaged, match="line 2"):
        adult.load(tmp_path)


@pytest.mark.real_data
def test_adult_statistics_against_numpy(data_folder: Path) -> None:
    import torch

    train, _ = adult.load(data_folder)
    prepared = train.prepare(torch.from_numpy(train.inputs), torch.float64).numpy()
    assert np.abs(prepared.mean(0)).max() < 1e-9
    assert np.abs(prepared.std(0) - 1).max() < 1e-9


def test_imdb_vocabulary_rule(tmp_path: Path) -> None:
    reviews = [("The film<br />the FILM the end.", 1), ("It's a bad film", 0)]
    for part in ("train", "test"):
        (tmp_path / "imdb").mkdir(exist_ok=True)
        lines = "".join(json.dumps({"text": text, "label": label}) + "\n" for text, label in reviews)
        (tmp_path / "imdb" / f"{part}.jsonl.gz").write_bytes(gzip.compress(lines.encode()))
    train, _ = imdb.load(tmp_path)
    # film 3, the 3, then a, bad, end, it's once each in alphabetical order
    assert imdb.vocabulary([imdb.tokens(text) for text, _ in reviews]) == {
        "film": 2, "the": 3, "a": 4, "bad": 5, "end": 6, "it's": 7,
    }  # fmt: skip
    assert train.inputs[0].tolist() == [0] * 194 + [3, 2, 3, 2, 3, 6]
    assert imdb.encode(["film"] * 250 + ["zebra"], {"film": 2}).tolist() == [2] * 199 + [1]


def test_imdb_tree(tmp_path: Path) -> None:
    for part in ("train", "test"):
        for label in ("pos", "neg"):
            folder = tmp_path / "aclImdb" / part / label
            folder.mkdir(parents=True)
            for name in ("10_9.txt", "2_8.txt"):
                (folder / name).write_text(f"{label} {name[0]}")
    train, _ = imdb.load(tmp_path)
    assert train.labels.tolist() == [0, 0, 1, 1]
    assert train.inputs[0, -1] != train.inputs[1, -1]


def test_damaged_imdb_names_the_line(tmp_path: Path) -> None:
    (tmp_path / "imdb").mkdir()
    (tmp_path / "imdb" / "train.jsonl").write_text('{"text": "a", "label": 1}\n{"text": "b", "label": 7}\n')
    (tmp_path / "imdb" / "test.jsonl").write_text('{"text": "a", "label": 1}\n')
    with pytest.raises(DataDamaged, match="line 2"):
        imdb.load(tmp_path)


def test_streamed_rows_are_the_rows_one_by_one() -> None:
    data = digits.load()[1]
    streamed = list(data.rows())
    assert streamed == [data.row(index) for index in range(len(data))]
    assert streamed[3] == row_bytes((data.inputs[3], data.labels[3]))
    image, label = data.parse(streamed[3])
    assert np.array_equal(image, data.inputs[3])
    assert label == data.labels[3]


def test_carried_rows_replace_content_and_leave_the_data_set_alone() -> None:
    data = digits.load()[1]
    before = data.inputs.copy()
    inputs, labels = data.fetch([5, 6], {1: data.row(9)})
    assert np.array_equal(inputs[1].numpy(), data.inputs[9])
    assert labels.tolist() == [data.labels[5], data.labels[9]]
    assert np.array_equal(data.inputs, before)


def test_integer_box_says_which_rows_are_outside_and_why() -> None:
    box = IntegerBox(0, 255, classes=3)
    inputs = np.array([[0, 255], [1.5, 0], [-1, 0], [0, 256], [3, 4]])
    bad = dict(box.outside(inputs, np.array([0, 0, 0, 0, 3])))
    assert set(bad) == {1, 2, 3, 4}
    assert "not an integer" in bad[1]
    assert "below" in bad[2]
    assert "above" in bad[3]
    assert "label 3" in bad[4]
    fields = IntegerBox((0, 5), (9, 6), classes=2)
    assert dict(fields.outside(np.array([[9, 5], [9, 7]]), np.array([0, 1]))).keys() == {1}
    assert FiniteReals().outside(np.array([[1.0], [np.inf]]), np.zeros(2))[0][0] == 1


def test_a_data_set_needs_a_label_per_input() -> None:
    with pytest.raises(UsageError, match="2 inputs and 3 labels"):
        Dataset("bad", np.zeros((2, 1)), np.zeros(3))

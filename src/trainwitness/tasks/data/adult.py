"""UCI Adult (census income) from `adult.data` and `adult.test`, plain or gzip'd.

Encoding, 14 int32 fields in the file's column order. Numbers stand as they are. A category is its position in the
list below, which is the alphabetical order of the values in the training file, `?` (missing) included. The label
is 1 for `>50K`. `docs/tasks.md` repeats this for readers.
"""

from __future__ import annotations

import csv
import io
import math
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from trainwitness.tasks.data.files import Source, damaged, data_folder, find, is_available, read_bytes
from trainwitness.tasks.dataset import Dataset, Prepare
from trainwitness.tasks.domain import IntegerBox


class Field(NamedTuple):
    """A column: the values of a category, or the bounds of a number."""

    name: str
    values: tuple[str, ...] = ()
    low: int = 0
    high: int = 0


def _category(name: str, values: str) -> Field:
    listed = tuple(values.split())
    return Field(name, listed, 0, len(listed) - 1)


FIELDS = (
    Field("age", low=0, high=120),
    _category(
        "workclass",
        "? Federal-gov Local-gov Never-worked Private Self-emp-inc Self-emp-not-inc State-gov Without-pay",
    ),
    Field("fnlwgt", low=0, high=2_000_000),
    _category(
        "education",
        "10th 11th 12th 1st-4th 5th-6th 7th-8th 9th Assoc-acdm Assoc-voc Bachelors Doctorate HS-grad Masters "
        "Preschool Prof-school Some-college",
    ),
    Field("education-num", low=1, high=16),
    _category(
        "marital-status",
        "Divorced Married-AF-spouse Married-civ-spouse Married-spouse-absent Never-married Separated Widowed",
    ),
    _category(
        "occupation",
        "? Adm-clerical Armed-Forces Craft-repair Exec-managerial Farming-fishing Handlers-cleaners "
        "Machine-op-inspct Other-service Priv-house-serv Prof-specialty Protective-serv Sales Tech-support "
        "Transport-moving",
    ),
    _category("relationship", "Husband Not-in-family Other-relative Own-child Unmarried Wife"),
    _category("race", "Amer-Indian-Eskimo Asian-Pac-Islander Black Other White"),
    _category("sex", "Female Male"),
    Field("capital-gain", low=0, high=99_999),
    Field("capital-loss", low=0, high=99_999),
    Field("hours-per-week", low=0, high=168),
    _category(
        "native-country",
        "? Cambodia Canada China Columbia Cuba Dominican-Republic Ecuador El-Salvador England France Germany "
        "Greece Guatemala Haiti Holand-Netherlands Honduras Hong Hungary India Iran Ireland Italy Jamaica Japan "
        "Laos Mexico Nicaragua Outlying-US(Guam-USVI-etc) Peru Philippines Poland Portugal Puerto-Rico Scotland "
        "South Taiwan Thailand Trinadad&Tobago United-States Vietnam Yugoslavia",
    ),
)
DOMAIN = IntegerBox(tuple(f.low for f in FIELDS), tuple(f.high for f in FIELDS), classes=2)


def load(data: Path | None = None, *, normalise: str = "standard") -> tuple[Dataset, Dataset]:
    """32,561 training and 16,281 test rows of 14 int32 fields and an int64 label.

    `normalise="standard"` subtracts each column's training mean and divides by its standard deviation;
    `normalise="none"` feeds the numbers as they are, as paper 000 seems to have done (its model collapses).
    """
    folder = data_folder(data, "adult")
    (train, train_labels), (test, test_labels) = (_read(_file(folder, part)) for part in ("data", "test"))
    prepare = _standardise(train) if normalise == "standard" else _plain
    return (
        Dataset("adult", train, train_labels, DOMAIN, prepare),
        Dataset("adult-test", test, test_labels, DOMAIN, prepare),
    )


def _file(folder: Path, part: str) -> Path:
    candidates = [f"{sub}/adult.{part}{end}" for sub in ("adult", ".") for end in ("", ".gz")]
    return find(folder, "adult", candidates)


def _read(path: Path) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]:
    try:
        text = read_bytes(path).decode("ascii")
    except UnicodeDecodeError as error:
        raise damaged(path, f"is not ASCII text: {error}") from error
    codes = [{value: code for code, value in enumerate(field.values)} for field in FIELDS]
    rows, labels = [], []
    try:
        lines = list(csv.reader(io.StringIO(text), skipinitialspace=True))
    except csv.Error as error:
        raise damaged(path, f"is not comma-separated text: {error}") from error
    for number, line in enumerate(lines, start=1):
        if not line or line[0].startswith("|"):  # the comment that opens adult.test, the empty line at the end
            continue
        if len(line) != len(FIELDS) + 1:
            raise damaged(path, f"line {number} has {len(line)} fields, expected {len(FIELDS) + 1}")
        try:
            rows.append([code[value] if code else int(value) for code, value in zip(codes, line[:-1], strict=True)])
            labels.append({"<=50K": 0, ">50K": 1}[line[-1].rstrip(".")])
        except (KeyError, ValueError, OverflowError) as error:
            raise damaged(path, f"line {number} has an unknown value: {error}") from error
    if not rows:
        raise damaged(path, "holds no rows")
    try:
        return np.array(rows, np.int32), np.array(labels, np.int64)
    except OverflowError as error:
        raise damaged(path, f"holds a number that is too large: {error}") from error


def _standardise(train: npt.NDArray[np.int32]) -> Prepare:
    # Whole-number sums and Python's exact integers: the statistics have the same bits on every machine.
    count, values = len(train), train.astype(np.int64)
    sums, squares = values.sum(0).tolist(), (values**2).sum(0).tolist()
    shift = torch.tensor([total / count for total in sums], dtype=torch.float64)
    deviations = [
        math.sqrt((count * square - total**2) / count**2) for total, square in zip(sums, squares, strict=True)
    ]
    scale = torch.tensor([deviation or 1.0 for deviation in deviations], dtype=torch.float64)

    def standardise(inputs: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        device = inputs.device
        return ((inputs.to(torch.float64) - shift.to(device)) / scale.to(device)).to(dtype)

    return standardise


def _plain(inputs: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return inputs.to(dtype)


def _check(folder: Path) -> None:
    for part in ("data", "test"):
        _file(folder, part)


SOURCE = Source("adult", load, lambda data: is_available(_check, "adult", data))

"""IMDB reviews from an `aclImdb` tree or from `imdb/{train,test}.jsonl.gz`, as token ids.

Vocabulary rule: text is lower-cased, `<br />` becomes a space, and a token is a run of a-z, 0-9 and apostrophes.
Tokens of the training part are ranked by count, ties alphabetically; the first 19,998 get the ids 2..19,999 by
rank. Id 0 is padding, id 1 any other token. A review is its last 200 tokens, padded in front.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import numpy.typing as npt

from trainwitness.tasks.data.files import Source, damaged, data_folder, find, is_available, read_bytes
from trainwitness.tasks.dataset import Dataset
from trainwitness.tasks.domain import IntegerBox

VOCABULARY, LENGTH = 20_000, 200
PADDING, UNKNOWN, FIRST = 0, 1, 2
DOMAIN = IntegerBox(0, VOCABULARY - 1, classes=2)

_TOKEN = re.compile(r"[a-z0-9']+")
_CANDIDATES = ("imdb/train.jsonl.gz", "imdb/train.jsonl", "train.jsonl.gz", "aclImdb/train", "train/pos")

Reviews = list[tuple[str, int]]


def load(data: Path | None = None) -> tuple[Dataset, Dataset]:
    """Rows of 200 int32 token ids and an int64 label (1 positive)."""
    found = find(data_folder(data, "imdb"), "imdb", _CANDIDATES)
    if ".jsonl" in found.name:
        train, test = (_jsonl(found.with_name(found.name.replace("train", part))) for part in ("train", "test"))
    else:
        root = found.parent if found.name == "train" else found.parent.parent
        train, test = _tree(root / "train"), _tree(root / "test")
    train_tokens = [tokens(text) for text, _ in train]
    ids = vocabulary(train_tokens)
    test_tokens = [tokens(text) for text, _ in test]
    return (
        _dataset("imdb", train_tokens, ids, train),
        _dataset("imdb-test", test_tokens, ids, test),
    )


def tokens(text: str) -> list[str]:
    """The tokens of a review."""
    return _TOKEN.findall(text.lower().replace("<br />", " "))


def vocabulary(reviews: Iterable[list[str]]) -> dict[str, int]:
    """Token to id, from the training part."""
    counts = Counter(token for review in reviews for token in review)
    ranked = sorted(counts, key=lambda token: (-counts[token], token))
    return {token: FIRST + rank for rank, token in enumerate(ranked[: VOCABULARY - FIRST])}


def encode(review: list[str], ids: dict[str, int]) -> npt.NDArray[np.int32]:
    """The last 200 tokens as ids, padded in front."""
    row = np.full(LENGTH, PADDING, np.int32)
    kept = [ids.get(token, UNKNOWN) for token in review[-LENGTH:]]
    row[LENGTH - len(kept) :] = kept
    return row


def _dataset(name: str, token_lists: list[list[str]], ids: dict[str, int], reviews: Reviews) -> Dataset:
    inputs = np.stack([encode(review, ids) for review in token_lists])
    return Dataset(name, inputs, np.array([label for _, label in reviews], np.int64), DOMAIN)


def _jsonl(path: Path) -> Reviews:
    reviews: Reviews = []
    for number, line in enumerate(read_bytes(path).splitlines(), start=1):
        try:
            record = json.loads(line)
            text, label = record["text"], record["label"]
            if not isinstance(text, str) or label not in (0, 1):
                raise ValueError("text must be a string and label 0 or 1")
        except (ValueError, KeyError, TypeError) as error:
            raise damaged(path, f"line {number} is not a review: {error}") from error
        reviews.append((text, int(label)))
    if not reviews:
        raise damaged(path, "holds no reviews")
    return reviews


def _tree(folder: Path) -> Reviews:
    reviews: Reviews = []
    for label, name in enumerate(("neg", "pos")):
        paths = sorted((find(folder, "imdb", [name])).glob("*.txt"), key=lambda path: (len(path.name), path.name))
        if not paths:
            raise damaged(folder / name, "holds no .txt files")
        reviews += [(read_bytes(path).decode("utf-8", "replace"), label) for path in paths]
    return reviews


def _check(folder: Path) -> None:
    find(folder, "imdb", _CANDIDATES)


SOURCE = Source("imdb", load, lambda data: is_available(_check, "imdb", data))

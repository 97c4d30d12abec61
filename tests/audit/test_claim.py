"""A claimant's example is found in a trace, in whatever way it was used."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from tests.conftest import tiny_task
from trainwitness import Dataset, IntegerBox, ShuffledEpochs, Task, Trace, record
from trainwitness.audit.claim import check_claim, load_example
from trainwitness.core.errors import StorageError, UsageError
from trainwitness.forging.one_example import one_example


def images_task(inputs: np.ndarray, labels: np.ndarray, batch: int = 8, **changes: object) -> Task:
    data = Dataset("images", inputs, labels, IntegerBox(0, 255, 3), lambda x, dtype: x.to(dtype) / 255)
    model = lambda: nn.Linear(inputs.shape[1], 3)  # noqa: E731
    schedule = ShuffledEpochs(len(data), batch, 0.1, seed=0)
    return tiny_task(dataset=data, model=model, schedule=schedule, **changes)


def test_all_kinds_of_copies_are_told_apart(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    inputs, labels = rng.integers(0, 256, (40, 60)).astype(np.uint8), rng.integers(0, 3, 40)
    mine = rng.integers(0, 256, 60)
    labels[:4] = [0, 1, 2, 0]
    inputs[0] = mine
    inputs[1] = np.rint(0.5 * mine)
    inputs[2] = np.rint(0.3 * mine + 0.7 * inputs[20])
    inputs[3] = np.clip(mine + rng.integers(-3, 4, 60), 0, 255)
    task = images_task(inputs, labels)
    record(task, tmp_path / "t", steps=10)
    claim = check_claim(Trace.open(tmp_path / "t"), task, mine.astype(np.uint8), label=0)
    found = {use.row: use for use in claim.uses}
    assert {row: use.copy.kind for row, use in found.items()} == {0: "exact", 1: "scaled", 2: "mixed", 3: "near"}
    assert found[1].copy.share == pytest.approx(0.5, abs=0.01)
    assert found[2].copy.share == pytest.approx(0.3, abs=0.01)
    assert found[2].copy.partner == 20
    assert [found[row].same_label for row in range(4)] == [True, False, False, True]
    for row, use in found.items():
        assert use.steps == [k for k in range(10) if row in task.schedule.batch(k).rows[0]]
    stranger = rng.integers(0, 256, 60).astype(np.uint8)
    assert not check_claim(Trace.open(tmp_path / "t"), task, stranger).found


def test_with_one_example_the_states_give_it_away(tmp_path: Path) -> None:
    """The claimant needs nothing but States: the batch is recovered to a grey level."""
    rng = np.random.default_rng(1)
    inputs, labels = rng.integers(0, 256, (12, 30)).astype(np.uint8), rng.integers(0, 3, 12)
    task = images_task(inputs, labels, batch=1)
    record(task, tmp_path / "t", steps=12)
    mine = task.schedule.batch(5).rows[0][0]
    claim = check_claim(Trace.open(tmp_path / "t"), task, inputs[mine], near=0.005)
    assert claim.by_gradient == [5]
    adam = images_task(inputs, labels, batch=1, optimizer=lambda p, lr: torch.optim.Adam(p, lr=lr))
    record(adam, tmp_path / "a", steps=2)
    assert "plain SGD" in check_claim(Trace.open(tmp_path / "a"), adam, inputs[0]).notes[0]


def test_proposition_1_and_where_it_ends() -> None:
    rng = np.random.default_rng(2)
    x, error = rng.normal(size=7), rng.normal(size=3)
    found = one_example(np.outer(x, error), error)
    assert found.known == "unique"
    assert np.allclose(found.inputs, x)
    without = one_example(np.outer(x, error), None)
    assert without.known == "up to a factor"
    assert without.inputs is not None
    assert abs(without.inputs @ x) == pytest.approx(np.linalg.norm(x))
    assert one_example(np.zeros((7, 3)), np.zeros(3)).known == "nothing"  # a dead first layer
    two = np.outer(x, error) + np.outer(rng.normal(size=7), rng.normal(size=3))
    assert "more than one example" in one_example(two, error).why
    assert one_example(np.outer(x, error), rng.normal(size=3)).known == "nothing"


def test_files_that_hold_no_example(tmp_path: Path) -> None:
    data = tiny_task().dataset
    np.savez(tmp_path / "good.npz", x=data.inputs[3], y=2)
    assert load_example(tmp_path / "good.npz", data)[1] == 2
    np.save(tmp_path / "short.npy", np.zeros(3))
    with pytest.raises(UsageError, match=r"shape \[3\]"):
        load_example(tmp_path / "short.npy", data)
    np.savez(tmp_path / "odd.npz", z=np.zeros(4))
    np.save(tmp_path / "pickled.npy", np.array([{}], dtype=object), allow_pickle=True)
    (tmp_path / "text.npy").write_text("hello")
    for name in ("odd.npz", "pickled.npy", "text.npy", "absent.npy"):
        with pytest.raises(StorageError, match="not an example"):
            load_example(tmp_path / name, data)

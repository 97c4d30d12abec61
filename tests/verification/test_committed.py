"""Property `data_committed`: which rows are in the commitment, one content per row, and what a nonce adds."""

from __future__ import annotations

import base64
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.commitments.test_commitment import KEY, NONCE
from tests.conftest import tiny_task
from tests.verification.forgery import Forgery
from trainwitness import Dataset, ShuffledEpochs, Task, record, verify
from trainwitness.commitments.commitment import Commitment, Committed, bound_seed, commit, write_commitment
from trainwitness.commitments.sources import rows_of
from trainwitness.core.errors import EvidenceDamaged
from trainwitness.core.verdict import Property


def committed_task(dataset: Dataset | None = None, nonce: str = NONCE, **changes: Any) -> tuple[Task, Commitment]:
    """The tiny task with its seeds bound to a commitment and a nonce."""
    data = dataset or tiny_task().dataset
    made = commit(rows_of(data), key=KEY)
    seed = bound_seed(made, nonce)
    schedule = ShuffledEpochs(len(data), 8, 0.1, seed=seed)
    return tiny_task(dataset=data, seed=seed, schedule=schedule, **changes), made


def found(trace: Path, task: Task, given: Committed | None) -> Property:
    return verify(trace, task=task, commitment=given).properties["data_committed"]


@pytest.fixture
def honest_committed(tmp_path: Path) -> tuple[Task, Commitment, Path]:
    task, made = committed_task()
    record(task, tmp_path / "t", steps=8, chunk_steps=3)
    return task, made, tmp_path / "t"


def carry(trace: Path, out: Path, step: int, position: int, content: bytes, row: int | None = None) -> Path:
    forged = Forgery(trace)
    stored = forged.records[step]
    rows = [list(micro) for micro in stored.rows]
    if row is not None:
        rows[0][position] = row
    carried = {**stored.carried, str(position): base64.b64encode(content).decode()}
    forged.records[step] = stored.model_copy(update={"rows": rows, "carried": carried})
    return forged.write(out)


def test_honest_training_reaches_each_grade(honest_committed: Any) -> None:
    task, made, trace = honest_committed
    plain = found(trace, task, Committed(made))
    assert (plain.standing, plain.grades) == ("established", ["committed"])
    bound = found(trace, task, Committed(made, nonce=NONCE, key=KEY))
    assert (bound.standing, bound.grades) == ("established", ["committed", "before_nonce"])
    assert "if the nonce was given out later" in bound.why
    assert "sorted tree holds the same rows" in bound.why
    assert found(trace, task, None).standing == "unknown"


def test_another_commitment_or_nonce_is_refuted(honest_committed: Any) -> None:
    task, made, trace = honest_committed
    other = Commitment(data=made.data.model_copy(update={"root": "0" * 64}))
    assert found(trace, task, Committed(other)).standing == "refuted"
    fewer = Commitment(data=made.data.model_copy(update={"rows": 39}))
    assert found(trace, task, Committed(fewer)).standing == "refuted"
    wrong = verify(trace, task=task, commitment=Committed(made, nonce=NONCE[::-1]))
    assert wrong.verdict == "REJECT"
    assert "may have been fixed after the training" in wrong.reasons[0]
    unsorted = Commitment(data=made.data, sorted=made.sorted.model_copy(update={"root": "0" * 64}))
    assert "absence proofs are void" in found(trace, task, Committed(unsorted, key=KEY)).why


def test_carried_rows_are_named(honest_committed: Any, tmp_path: Path) -> None:
    task, made, trace = honest_committed
    other = Dataset("o", np.full((1, 4), 7, np.uint8), np.zeros(1, np.int64)).row(0)
    records = Forgery(trace).records
    later = {row for step in records[5:] for row in step.rows[0]}
    place, row = next((k, row) for k, row in enumerate(records[3].rows[0]) if row not in later)
    forged = carry(trace, tmp_path / "f", 3, place, other)
    lie = found(forged, task, Committed(made))
    assert lie.standing == "refuted"
    assert f"step 3, row {row} (carried)" in lie.why


def test_a_carried_row_that_is_the_committed_one_is_in_the_commitment(honest_committed: Any, tmp_path: Path) -> None:
    task, made, trace = honest_committed
    row = Forgery(trace).records[3].rows[0][2]
    same = carry(trace, tmp_path / "same", 3, 2, task.dataset.row(row))
    assert found(same, task, Committed(made)).standing == "established"


def test_two_contents_for_one_row_fit_no_commitment(honest_committed: Any, tmp_path: Path) -> None:
    task, made, trace = honest_committed
    row, other = 5, [Dataset("o", np.full((1, 4), k, np.uint8), np.zeros(1, np.int64)).row(0) for k in (7, 8)]
    once = carry(trace, tmp_path / "a", 1, 0, other[0], row=row)
    twice = carry(once, tmp_path / "b", 6, 3, other[1], row=row)
    for given in (None, Committed(made)):
        lie = found(twice, task, given)
        assert lie.standing == "refuted"
        assert f"row {row} has two contents" in lie.why


def test_leaf_hashes_name_the_rows_of_a_copy_that_differs(honest_committed: Any, tmp_path: Path) -> None:
    task, _, trace = honest_committed
    leaves = tmp_path / "leaves"
    made = write_commitment(tmp_path / "c", lambda file: commit(rows_of(task.dataset), key=KEY, leaves=file), leaves)
    inputs = task.dataset.inputs.copy()
    inputs[11] ^= 1
    other = replace(task, dataset=replace(task.dataset, inputs=inputs))
    assert found(trace, other, Committed(made)).standing == "unknown"
    named = found(trace, other, Committed(made, leaves=leaves))
    assert named.standing == "refuted"
    assert "row 11" in named.why
    assert "row 12" not in named.why
    assert found(trace, task, Committed(made, leaves=leaves)).standing == "established"
    content = leaves.read_bytes()
    for changed in (content[:-1], b"x" + content[1:]):
        leaves.write_bytes(changed)
        with pytest.raises(EvidenceDamaged, match="leaf hashes"):
            found(trace, task, Committed(made, leaves=leaves))
    with pytest.raises(EvidenceDamaged, match="cannot be read"):
        found(trace, task, Committed(made, leaves=tmp_path / "none"))


def test_required_and_not_shown_is_inconclusive(honest_committed: Any) -> None:
    task, _, trace = honest_committed
    verdict = verify(trace, task=task, require=["data_committed"])
    assert verdict.verdict == "INCONCLUSIVE"
    assert "data_committed is required: no commitment was given" in verdict.reasons


def test_a_bound_seed_that_decides_nothing_does_not_count(tmp_path: Path) -> None:
    """The manifest names the bound seed, but the parameters did not come from it."""
    task, made = committed_task()
    record(task, tmp_path / "t", steps=5)
    forged = Forgery(tmp_path / "t")
    forged.manifest = forged.manifest.model_copy(update={"initialisation": "unstated", "order": "loader"})
    lie = found(forged.write(tmp_path / "f"), task, Committed(made, nonce=NONCE))
    assert lie.standing == "unknown"
    assert "initialised" in lie.why


def test_some_of_the_steps_show_nothing_of_the_rest(honest_committed: Any, tmp_path: Path) -> None:
    task, made, trace = honest_committed
    part = verify(trace, task=task, commitment=Committed(made), steps=(0, 3))
    assert part.properties["data_committed"].standing == "unknown"
    other = Dataset("o", np.full((1, 4), 7, np.uint8), np.zeros(1, np.int64)).row(0)
    lie = verify(carry(trace, tmp_path / "f", 1, 2, other), task=task, commitment=Committed(made), steps=(0, 3))
    assert lie.properties["data_committed"].standing == "refuted"

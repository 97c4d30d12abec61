"""Verifying exact traces: everything or nothing comes out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from tests.conftest import tiny_task
from trainwitness import Batch, Numerics, State, Stepper, Threshold, Trace, calibrate, diff, record, verify
from trainwitness.core.errors import TraceDamaged, UsageError
from trainwitness.tasks.task import Task
from trainwitness.trace import format as f
from trainwitness.trace.exact_reader import ExactTrace
from trainwitness.trace.exact_writer import ExactWriter

EXACT = Numerics(precision="exact", threads=1)


@pytest.fixture
def honest(tmp_path: Path) -> ExactTrace:
    record(tiny_task(), tmp_path / "t", steps=12, numerics=EXACT, chunk_steps=4, checkpoint_every=5)
    trace = Trace.open(tmp_path / "t")
    assert isinstance(trace, ExactTrace)
    return trace


def rewritten(
    source: ExactTrace, folder: Path, leaves: Iterable[bytes], batches: dict[int, Batch], states: dict[int, State]
) -> Path:
    """A sealed trace of an attacker's choosing, with every digest fitting."""
    folder.mkdir()
    first = Stepper(tiny_task(), EXACT).state()
    writer = ExactWriter.create(folder, source.manifest, states.get(-1, first))
    task = tiny_task()
    for step, leaf in enumerate(leaves):
        batch = batches.get(step, task.schedule.batch(step))
        writer.append(leaf, batch, lambda step=step: states.get(step, first))
    writer.seal(states.get(11, first))
    return folder


def run(task: Task, batches: dict[int, Batch], steps: int = 12) -> tuple[list[bytes], dict[int, State]]:
    stepper, leaves, states = Stepper(task, EXACT), [], {}
    for step in range(steps):
        stepper.run(batches.get(step, task.schedule.batch(step)))
        leaves.append(stepper.leaf(step))
        states[step] = stepper.state()
    return leaves, states


def test_an_honest_trace_is_accepted_under_other_settings(honest: ExactTrace) -> None:
    for numerics in (EXACT, Numerics(precision="exact", threads=2, onednn=False, deterministic=True)):
        verdict = verify(honest, task=tiny_task(), numerics=numerics, require=("exact", "initialised", "scheduled"))
        assert verdict.verdict == "ACCEPT"
        assert len(verdict.steps) == 12
        assert verdict.step_root == honest.seal.step_root  # type: ignore[union-attr]


@pytest.mark.parametrize("wanted", [(0, 4), (3, 8), (7, 12), (11, 12)])
def test_any_range_is_verified_from_the_nearest_checkpoint(honest: ExactTrace, wanted: tuple[int, int]) -> None:
    computed: list[int] = []

    class Counting(Stepper):
        def leaf(self, step: int) -> bytes:
            computed.append(step)
            return super().leaf(step)

    from trainwitness.verification.exact import ExactVerification

    verdict = ExactVerification(honest, Counting(tiny_task(), EXACT), wanted).run(None, ("reproduced",), None)
    assert verdict.verdict == "INCONCLUSIVE"
    assert [error.step for error in verdict.steps] == list(range(*wanted))
    assert computed == list(range(wanted[0] // 5 * 5, wanted[1]))


def test_one_exchanged_row_is_rejected(honest: ExactTrace, tmp_path: Path) -> None:
    task = tiny_task()
    batch = task.schedule.batch(6)
    other = next(row for row in range(40) if row not in batch.rows[0])
    swapped = replace(batch, rows=((other, *batch.rows[0][1:]),))
    leaves, states = run(task, {})
    verdict = verify(rewritten(honest, tmp_path / "f", leaves, {6: swapped}, states), task=task)
    assert verdict.verdict == "REJECT"
    bad = [error.step for error in verdict.steps if not error.exact]
    assert bad == [6], "the stored checkpoint at step 10 lets the rest be verified"
    assert verdict.properties["scheduled"].standing == "refuted"
    leaves, states = run(task, {6: swapped})
    consistent = verify(rewritten(honest, tmp_path / "g", leaves, {6: swapped}, states), task=task)
    assert consistent.properties["reproduced"].standing == "established"
    assert consistent.verdict == "REJECT", "a consistent run on other rows is not the task's schedule"


def test_an_altered_checkpoint_is_rejected(honest: ExactTrace, tmp_path: Path) -> None:
    leaves, states = run(tiny_task(), {})
    states[4] = State({n: torch.nextafter(t, t + 1) for n, t in states[4].tensors.items()})
    verdict = verify(rewritten(honest, tmp_path / "f", leaves, {}, states), task=tiny_task())
    assert verdict.verdict == "REJECT"
    assert "the State before it" in verdict.reasons[0]


def test_another_beginning_is_rejected(honest: ExactTrace, tmp_path: Path) -> None:
    leaves, states = run(tiny_task(), {})
    states[-1] = states[0]
    verdict = verify(rewritten(honest, tmp_path / "f", leaves, {}, states), task=tiny_task())
    assert verdict.properties["initialised"].standing == "refuted"


def test_another_final_state_is_no_trace(honest: ExactTrace, tmp_path: Path) -> None:
    leaves, states = run(tiny_task(), {})
    states[11] = states[10]
    with pytest.raises(TraceDamaged, match="final State"):
        verify(rewritten(honest, tmp_path / "f", leaves, {}, states), task=tiny_task())


def test_carried_rows_are_counted_and_rows_outside_refused(honest: ExactTrace, tmp_path: Path) -> None:
    task = tiny_task()
    leaves, states = run(task, {})
    carried = replace(task.schedule.batch(2), carried={0: task.dataset.row(task.schedule.batch(2).rows[0][1])})
    outside = replace(task.schedule.batch(7), rows=((999, *task.schedule.batch(7).rows[0][1:]),))
    verdict = verify(rewritten(honest, tmp_path / "f", leaves, {2: carried, 7: outside}, states), task=task)
    assert verdict.properties["data_matches"].standing == "refuted"
    assert [error.step for error in verdict.steps if error.problems] == [2, 7]


def test_a_shipped_model_is_bound(honest: ExactTrace, tmp_path: Path) -> None:
    record(tiny_task(), tmp_path / "u", steps=12, numerics=EXACT, save_model=tmp_path / "m.safetensors")
    bound = verify(honest, task=tiny_task(), model=tmp_path / "m.safetensors", require=("model_bound",))
    assert bound.verdict == "ACCEPT"
    _, states = run(tiny_task(), {})
    save_file({n: t + 1e-12 for n, t in states[11].part("param").items()}, tmp_path / "other.safetensors")
    assert verify(honest, task=tiny_task(), model=tmp_path / "other.safetensors").verdict == "REJECT"


def test_thresholds_and_other_arithmetic_are_refused(honest: ExactTrace) -> None:
    with pytest.raises(UsageError, match="a threshold for an exact trace"):
        verify(honest, task=tiny_task(), threshold=Threshold(value=1e-6))
    with pytest.raises(UsageError, match="recomputed in float32"):
        verify(honest, task=tiny_task(), numerics=Numerics())
    with pytest.raises(UsageError, match="no noise to calibrate"):
        calibrate(tiny_task(), numerics=EXACT, steps=2)
    assert verify(honest, task=tiny_task(), threshold=Threshold(value=0.0)).verdict == "ACCEPT"


def test_diff_names_the_first_leaf(honest: ExactTrace, tmp_path: Path) -> None:
    leaves, states = run(tiny_task(), {})
    other = rewritten(honest, tmp_path / "f", [*leaves[:8], bytes(32), *leaves[9:]], {}, states)
    found = diff(honest, other)
    assert [(d.step, "digest" in d.what) for d in found] == [(8, True)]
    assert diff(honest, honest) == []
    record(tiny_task(), tmp_path / "float", steps=2)
    assert "digests of exact arithmetic" in diff(honest, tmp_path / "float")[-1].what


def test_format_and_precision_go_together(honest: ExactTrace) -> None:
    stated = honest.manifest.model_dump()
    with pytest.raises(ValueError, match="does not hold traces of precision exact"):
        f.Manifest(**(stated | {"format": f.FORMAT, "numerics": honest.manifest.numerics}))

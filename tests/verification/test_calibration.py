"""Benign noise is measured, each source by itself, from states of the verifier's own."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from tests.conftest import tiny_task
from tests.verification.forgery import ADAM, MOMENTUM, NORMED
from trainwitness import (
    Numerics,
    Stepper,
    TaskSpec,
    Threshold,
    build_task,
    calibrate,
    load_calibration,
    record,
    verify,
)
from trainwitness.core.errors import StorageError, TraceDamaged, TraceMismatch, UsageError
from trainwitness.core.result import Result
from trainwitness.core.seeds import derive, permutation
from trainwitness.verification.calibration import Calibration, _stages
from trainwitness.verification.noise import SOURCES, variations


@pytest.fixture(scope="module")
def lenet() -> Calibration:
    return calibrate(build_task("lenet-digits"), steps=10)


def test_every_source_of_this_machine_is_reported(lenet: Calibration) -> None:
    assert set(lenet.sources) == {
        "repetition", "order", "threads", "deterministic", "onednn", "memory-format", "rounding", "jitter",
    }  # fmt: skip
    assert set(lenet.sources) <= set(SOURCES)
    assert lenet.sources["repetition"].all.largest == 0  # the same bits, on CPU
    assert 0 < lenet.sources["order"].all.largest < 1e-6
    assert lenet.eps_repr == max(source.all.largest for source in lenet.sources.values())
    order = np.array([s.l2 for s in lenet.samples if s.source == "order"])
    spread = lenet.sources["order"].all
    assert spread.count == len(order)
    assert spread.largest == order.max()
    assert spread.median == pytest.approx(np.median(order))
    assert spread.variance == pytest.approx(order.var())
    assert sum(stage.count for stage in lenet.sources["order"].stages if stage) == len(order)
    per_step = {step: sum(s.step == step for s in lenet.samples) for step in range(10)}
    assert max(per_step.values()) == 10


def test_an_error_of_another_order_equals_an_independent_computation() -> None:
    """The same permutation, with PyTorch's own loop instead of ours."""
    task = tiny_task()
    found = calibrate(task, steps=3, repeats=1, only="order")
    stepper, variation = Stepper(task), next(variations(task, Numerics(), 1, "order"))[0]
    assert variation.order is not None
    for step, sample in enumerate(found.samples):
        start, batch = stepper.state(), task.schedule.batch(step)
        stepper.run(batch)
        order = permutation(derive(variation.order, step, 0), 8)
        model = nn.Linear(4, 3)
        model.load_state_dict(start.part("param"))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        inputs, labels = task.dataset.fetch(np.array(batch.rows[0])[order].tolist())
        nn.functional.cross_entropy(model(inputs.float() / 255), labels).backward()
        optimizer.step()
        gap = sum(
            float((p.detach().double() - stepper.state().tensors[f"param/{n}"].double()).square().sum())
            for n, p in model.named_parameters()
        )
        assert sample.l2 == pytest.approx(gap**0.5, rel=1e-6)
        variation = next(itertools.islice(variations(task, Numerics(), 1, "order"), step + 1, None))[0]
    assert any(sample.l2 > 0 for sample in found.samples)


@pytest.mark.parametrize("changes", [MOMENTUM, ADAM], ids=["momentum", "adam"])
def test_optimiser_state_has_a_scale_of_its_own(changes: dict[str, Any]) -> None:
    found = calibrate(tiny_task(**changes), steps=10, repeats=8)
    assert 0 < max(s.optimizer for s in found.samples if s.source == "order") < 1e-3


def test_buffers_have_a_scale_of_their_own() -> None:
    model = lambda: nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 3))  # noqa: E731
    found = calibrate(tiny_task(model=model, initialisation="torch"), steps=10, repeats=8)
    assert 0 < max(s.buffers for s in found.samples if s.source == "order") < 1e-3


def test_what_changes_the_step_itself_is_no_benign_noise() -> None:
    """Dropout masks belong to places in the batch, so another order is another step; it must not widen thresholds."""
    found = calibrate(tiny_task(**NORMED), steps=10)
    assert "order" in found.unavailable
    assert "order" not in found.sources
    assert found.eps_repr < 1e-5


def test_float64_has_its_own_last_bits() -> None:
    found = calibrate(tiny_task(), numerics=Numerics(precision="float64"), steps=5)
    assert found.eps_repr < 1e-14


def test_coarse_rounding_is_still_rounding() -> None:
    found = calibrate(build_task("lenet-digits"), numerics=Numerics(precision="bfloat16"), steps=5)
    assert found.sources["rounding"].all.largest > 1e-6


def test_a_diverged_training_is_said() -> None:
    with pytest.raises(UsageError, match="diverged"):
        calibrate(build_task(TaskSpec(name="mlp-digits", options={"learning_rate": 1e30})), steps=5)


def test_stages_are_spread_over_the_training() -> None:
    assert _stages(50, 50) == [(0, 10), (10, 20), (20, 30), (30, 40), (40, 50)]
    assert _stages(10, 100) == [(0, 2), (24, 26), (49, 51), (73, 75), (98, 100)]
    assert _stages(3, 30) == [(0, 1), (14, 15), (29, 30)]
    assert _stages(1, 9) == [(0, 1)]


def test_the_trace_under_test_contributes_no_state(tmp_path: Path) -> None:
    """Two traces of the same task, one with absurd States, are calibrated alike."""
    from typer.testing import CliRunner

    from tests.verification.forgery import Forgery
    from trainwitness.cli.main import app

    record(build_task("softmax-digits"), tmp_path / "t", steps=3)
    forged = Forgery(tmp_path / "t")
    for number in range(4):
        forged.set(number, "param/1.weight", torch.full((10, 784), 1e6))
    forged.write(tmp_path / "f")
    results = []
    for name in ("t", "f"):
        out = tmp_path / f"{name}.json"
        done = CliRunner().invoke(app, ["calibrate", str(tmp_path / name), "--out", str(out), "--steps", "3"])
        assert done.exit_code == 0, done.output
        found = load_calibration(out)
        results.append((found.samples, found.task))
    assert results[0] == results[1]
    assert results[0][1]["options"]["seed"] != 0  # type: ignore[index]


def written(calibration: Calibration, path: Path) -> Path:
    envelope = Result(
        kind="calibrate", command=[], environment=calibration.environment, result=calibration.model_dump(mode="json")
    )
    path.write_text(envelope.to_json())
    return path


def test_a_calibration_is_read_back(lenet: Calibration, tmp_path: Path) -> None:
    assert load_calibration(written(lenet, tmp_path / "c.json")) == lenet
    (tmp_path / "bad.json").write_text('{"kind": "verify", "result": {}}')
    (tmp_path / "worse.json").write_text("[1")
    for name in ("bad.json", "worse.json"):
        with pytest.raises(TraceDamaged, match="not a calibration"):
            load_calibration(tmp_path / name)
    with pytest.raises(StorageError, match="absent"):
        load_calibration(tmp_path / "absent.json")


def test_honest_traces_of_other_threads_and_seeds_are_accepted(lenet: Calibration, tmp_path: Path) -> None:
    task = build_task(TaskSpec(name="lenet-digits", options={"seed": 3}))
    record(task, tmp_path / "t", steps=15, numerics=Numerics(threads=1, onednn=False))
    for policy in ("largest", "largest:3", "extreme", "extreme:0.001", "adaptive"):
        verdict = verify(tmp_path / "t", calibration=lenet, policy=policy, numerics=Numerics(threads=2))
        assert verdict.verdict == "ACCEPT", verdict.reasons
        assert verdict.max_l2 > 0
        assert verdict.threshold is not None
        assert verdict.threshold.false_rejection is not None
        assert verdict.threshold.false_rejection.held_out > 0
        assert verdict.threshold.false_rejection.steps == 1000


def test_a_calibration_for_something_else_is_refused(lenet: Calibration, tmp_path: Path) -> None:
    options: list[tuple[str, dict[str, Any], Numerics | None]] = [
        ("batch_size", {"batch_size": 50}, None),
        ("softmax-digits", {}, None),
        ("precision", {}, Numerics(precision="bfloat16")),
        ("onednn", {}, Numerics(onednn=False)),
    ]
    for number, (name, changes, numerics) in enumerate(options):
        task = build_task(TaskSpec(name=name if "digits" in name else "lenet-digits", options=changes))
        path = tmp_path / str(number)
        record(task, path, steps=3, numerics=numerics)
        with pytest.raises(TraceMismatch, match="does not fit"):
            verify(path, calibration=lenet)
        verdict = verify(path, calibration=lenet, allow_mismatch=True, numerics=numerics)
        assert verdict.verdict == "INCONCLUSIVE"
        assert any("does not fit" in reason for reason in verdict.reasons)
    elsewhere = lenet.environment.model_copy(update={"processor": "another"})
    with pytest.raises(TraceMismatch, match="processor"):
        verify(path, calibration=lenet.model_copy(update={"environment": elsewhere}), numerics=Numerics())
    with pytest.raises(UsageError, match="a threshold and a calibration"):
        verify(path, calibration=lenet, threshold=Threshold(value=1))


def test_a_task_that_depends_on_the_place_in_the_batch_still_calibrates() -> None:
    class Placed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(4, 3)

        def forward(self, inputs: torch.Tensor) -> torch.Tensor:
            return self.linear(inputs) * torch.arange(1, len(inputs) + 1)[:, None]

    found = calibrate(tiny_task(model=Placed, initialisation="torch"), steps=2)
    assert "order" in found.unavailable


def test_bad_input() -> None:
    for wrong in ({"repeats": 0}, {"steps": 0}, {"steps": 5, "horizon": 4}):
        with pytest.raises(UsageError, match="repeats of"):
            calibrate(tiny_task(), **wrong)
    with pytest.raises(UsageError, match="noise source 'weather'"):
        calibrate(tiny_task(), only="weather")

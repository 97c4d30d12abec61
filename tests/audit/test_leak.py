"""The leak audit: what it says of open and of defended gradients, of users' own models and of files."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from trainwitness import TaskSpec
from trainwitness.audit.leak import LeakReport, leak
from trainwitness.audit.leak_subject import Subject, own_batch, subject_of
from trainwitness.core.errors import StorageError, TraceMismatch, UsageError
from trainwitness.leakage.defences import parse
from trainwitness.training.differentiable import GradientGap
from trainwitness.training.stepper import fetch


def audit(subject: Subject, size: int, **settings: object) -> LeakReport:
    return leak(subject, **{"batch_size": size, "batches": 2, "risk": False, "iterations": 20, **settings})


@pytest.fixture(scope="module")
def wide() -> Subject:
    return subject_of(TaskSpec(name="mlp-digits", options={"hidden": [200]}))


def test_an_open_gradient_gives_everything_away(wide: Subject) -> None:
    found = audit(wide, 1)
    assert found.finding
    assert found.label_verdict.startswith("exactly recoverable")
    assert found.inputs.attack == "analytic"
    assert found.inputs.quality[0].psnr > 60
    assert found.inputs.open_directions is not None
    assert found.inputs.open_directions.undetermined == 0
    assert [len(row) for row in found.inputs.pictures] == [1, 1]
    assert found.to_json()["inputs"]["null_space"]["dimensions"] == 784


def test_noise_hides_it(wide: Subject) -> None:
    found = audit(wide, 24, defence=parse("gaussian:1"), attack="none")
    assert "not recoverable" in found.label_verdict
    assert not found.finding
    assert found.defence == "gaussian:1"
    private = audit(wide, 24, defence=parse("clip:0.1:10"), attack="none")
    assert not private.finding


def test_the_risk_is_told_by_batch_size(wide: Subject) -> None:
    found = audit(wide, 4, risk=True, attack="none")
    sizes = [row["batch"] for row in found.risk]
    assert sizes == [1, 4, 16, 64, 256, 1024]
    assert found.risk[0]["best LnAcc"] == 1


def test_large_batches_of_other_models_are_not_attempted(wide: Subject) -> None:
    found = audit(wide, 40)
    assert found.inputs.attack == "none"
    assert "too large" in found.inputs.verdict


def test_a_users_own_model_and_batch() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(12, 30), nn.ReLU(), nn.Linear(30, 4))
    inputs, labels = torch.rand(3, 1, 3, 4), torch.tensor([1, 2, 1])
    task = own_batch((model, inputs, labels))
    assert torch.equal(task.model()[1].weight, model[1].weight)
    with pytest.raises(UsageError, match="returned int"):
        own_batch(3)


def test_a_gradient_file_needs_no_data(wide: Subject, tmp_path: Path) -> None:
    stepper = wide.stepper
    inputs, labels = fetch(stepper.task.dataset, [9], stepper.device, stepper.dtype)
    gradient = {name: t.contiguous() for name, t in GradientGap(stepper, wide.state).gradient(inputs, labels).items()}
    save_file(gradient, tmp_path / "g.safetensors")
    spec = TaskSpec(name="mlp-digits", options={"hidden": [200]})
    weights = {name.removeprefix("param/"): t.contiguous() for name, t in wide.state.tensors.items()}
    save_file(weights, tmp_path / "w.safetensors")
    subject = subject_of(spec, gradient=tmp_path / "g.safetensors", weights=tmp_path / "w.safetensors")
    found = audit(subject, 1)
    counts = next(one for one in found.labels if one.method == "pooled").counts
    assert counts is not None
    assert counts[int(labels)] == 1
    assert found.inputs.finding
    assert found.guessing is None
    (tmp_path / "bad").write_bytes(b"junk")
    save_file({"1.weight": torch.zeros(2, 2)}, tmp_path / "small")
    save_file({"other": torch.zeros(2)}, tmp_path / "other")
    save_file({"1.bias": torch.full((200,), torch.nan)}, tmp_path / "nan")
    for name, kind, words in (
        ("bad", StorageError, "cannot be read"),
        ("absent", StorageError, "cannot be read"),
        ("small", TraceMismatch, "the model's is"),
        ("other", TraceMismatch, "no tensor has a parameter's name"),
        ("nan", StorageError, "not finite"),
    ):
        with pytest.raises(kind, match=words):
            subject_of(spec, gradient=tmp_path / name)
    with pytest.raises(UsageError, match="stage"):
        subject_of(spec, weights=tmp_path / "w.safetensors", stage="trained")
    with pytest.raises(UsageError, match="unknown stage"):
        subject_of(spec, stage="late")

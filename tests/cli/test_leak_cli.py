"""`trainwitness leak` as a user types it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.cli.test_cli import envelope, run

OWN = """
import torch
from torch import nn
def mine():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(48, 60), nn.ReLU(), nn.Linear(60, 5))
    return model, torch.rand(2, 3, 4, 4), torch.tensor([4, 1])
def wrong():
    return "nothing"
"""


def test_an_audit_in_words_json_and_pictures(tmp_path: Path) -> None:
    arguments = [
        "leak",
        "mlp-digits",
        "--batch-size",
        "1",
        "--batches",
        "2",
        "--pictures",
        "p.png",
        "--json",
        "l.json",
    ]
    out, _ = run(*arguments, cwd=tmp_path, code=1)
    assert "labels: exactly recoverable" in out
    assert "inputs: recognisable: 1 of 1" in out
    assert "0 of 784 directions" in out
    assert "labels at other batch sizes" in out
    result = envelope((tmp_path / "l.json").read_text(), "leak")
    assert result["finding"] is True
    assert result["inputs"]["attack"] == "analytic"
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")


def test_a_defended_gradient_is_no_finding(tmp_path: Path) -> None:
    arguments = [
        "leak",
        "mlp-digits",
        "--batch-size",
        "24",
        "--defence",
        "gaussian:1",
        "--attack",
        "none",
        "--no-risk",
    ]
    out, _ = run(*arguments, cwd=tmp_path)
    assert "not recoverable beyond guessing" in out
    assert "defence: gaussian:1" in out


def test_your_own_model_and_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_model.py").write_text(OWN)
    monkeypatch.delitem(sys.modules, "own_model", raising=False)
    monkeypatch.syspath_prepend(str(tmp_path))
    out, _ = run("leak", "own_model:mine", "--precision", "float64", cwd=tmp_path, code=1)
    assert "as given, batch of 2" in out
    assert "recognisable: 2 of 2" in out
    _, err = run("leak", "own_model:wrong", cwd=tmp_path, code=2)
    assert "returned str" in err


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["nonsense"], 2, "unknown task"),
        (["mlp-digits", "--stage", "late"], 2, "unknown stage"),
        (["mlp-digits", "--defence", "magic"], 2, "unknown defence"),
        (["mlp-digits", "--attack", "magic"], 2, "unknown attack"),
        (["mlp-digits", "--precision", "float16"], 2, "precision"),
        (["mlp-digits", "--gradient", "absent"], 3, "cannot be read"),
        (["lenet-digits", "--attack", "sparse", "--batches", "1", "--no-risk"], 2, "fully connected"),
        (["mlp-digits", "--attack", "none", "--no-risk", "--pictures", "p.png"], 2, "no pictures"),
    ],
)
def test_bad_input(tmp_path: Path, arguments: list[str], code: int, message: str) -> None:
    _, err = run("leak", *arguments, cwd=tmp_path, code=code)
    assert message in err

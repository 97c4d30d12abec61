"""Exact arithmetic on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.test_cli import run


def test_record_verify_inspect(tmp_path: Path) -> None:
    run(
        *("record", "softmax-digits", "--out", "t", "--steps", "20", "--precision", "exact"),
        *("--save-model", "m.safetensors", "--checkpoint-every", "8", "--explicit-rows"),
        cwd=tmp_path,
    )
    seen, _ = run("inspect", "t", cwd=tmp_path)
    assert "exact on cpu" in seen
    assert "every 8 steps" in seen
    required = ("--require", "exact,model_bound,scheduled")
    done, _ = run("verify", "t", "--model", "m.safetensors", *required, "--json", "v.json", cwd=tmp_path)
    assert "digests of steps compared" in done
    assert json.loads((tmp_path / "v.json").read_text())["result"]["verdict"] == "ACCEPT"
    part, _ = run("verify", "t", "--steps", "10:12", cwd=tmp_path, code=4)
    assert "recomputed 2 States" in part


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("verify", "t", "--threshold", "1e-6"), "a threshold for an exact trace"),
        (("verify", "t", "--precision", "float32"), "an exact trace recomputed in float32"),
        (("forge", "t", "--step", "1", "--remove", "3", "--out", "forged"), "digests of its States"),
        (("calibrate", "softmax-digits", "--precision", "exact", "--out", "c.json"), "no noise to calibrate"),
        (("record", "softmax-digits", "--out", "u", "--explicit-rows"), "explicit rows in a float trace"),
    ],
)
def test_what_exact_traces_cannot_do_is_said(tmp_path: Path, arguments: tuple[str, ...], text: str) -> None:
    run("record", "softmax-digits", "--out", "t", "--steps", "3", "--precision", "exact", cwd=tmp_path)
    _, said = run(*arguments, cwd=tmp_path, code=2)
    assert text in said
    assert "what to do" in said

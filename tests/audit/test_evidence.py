"""A forgery can be checked without this package."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import numpy as np
import pytest

from tests.forging.test_attacks import problem_of
from trainwitness import TaskSpec, build_task
from trainwitness.audit.evidence import arrays, write_arrays
from trainwitness.core.errors import StorageError
from trainwitness.forging.forge import attack

DOCS = Path(__file__).parents[2] / "docs"


def checked(path: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """What the published script prints."""
    spec = importlib.util.spec_from_file_location("check_forgery", DOCS / "check_forgery.py")
    assert spec
    assert spec.loader
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    script.main(path)
    return capsys.readouterr().out


def differences(text: str) -> list[float]:
    return [float(number) for number in re.findall(r"the steps differ by (\S+)", text)]


def test_the_published_forgery_is_what_the_documentation_says(capsys: pytest.CaptureFixture[str]) -> None:
    text = checked(DOCS / "forged" / "softmax-mnist.npz", capsys)
    assert "whole numbers in 0..255: True; labels unchanged: True" in text
    assert "images that differ: 100 of 100" in text
    assert "found in the forged one: 0" in text
    single, double = differences(text)
    assert single < 1e-7
    assert double < 1e-8
    assert "import trainwitness" not in (DOCS / "check_forgery.py").read_text()


def test_the_script_agrees_with_the_step_function(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    task = build_task(TaskSpec(name="mlp-digits", options={"batch_size": 30, "hidden": [6, 5]}))
    problem = problem_of(task, positions=range(30), pool_size=100)
    forgery = attack(problem, "neighbour")
    write_arrays(tmp_path / "f.npz", arrays(problem, forgery))
    single, double = differences(checked(tmp_path / "f.npz", capsys))
    assert single == pytest.approx(forgery.error, rel=1e-2)
    assert double == pytest.approx(problem.in_float64().error(forgery.batch), rel=1e-2)
    assert np.load(tmp_path / "f.npz", allow_pickle=False)["forged"].dtype == np.uint8
    with pytest.raises(StorageError, match="cannot be written"):
        write_arrays(tmp_path / "no" / "f.npz", {})

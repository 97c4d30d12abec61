"""Every experiment runs in its quick form, without data files, and says what it must."""

from __future__ import annotations

import importlib

import pytest

from trainwitness.core.errors import UsageError
from trainwitness.experiments.experiment import EXPERIMENTS, Setting, beside, find, table


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_quick_runs_need_no_data(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRAINWITNESS_DATA", raising=False)
    if name == "accuracy":
        module = importlib.import_module("trainwitness.experiments.accuracy")
        monkeypatch.setattr(module, "SEEDS", 2)
    heard: list[str] = []
    result = find(name).run(Setting(quick=True, advance=heard.append))
    assert result["rows"]
    assert result["notes"]
    assert heard
    assert len(table(result["rows"])) == len(result["rows"]) + 1


def test_a_measurement_stands_beside_the_papers() -> None:
    assert beside(2e-8, 1e-8) == {"ours": 2e-8, "paper": 1e-8, "ratio": 2.0}
    assert beside(2e-8, None)["ratio"] is None
    assert beside(2e-8, 0.0)["ratio"] is None


def test_unknown_experiments_are_named() -> None:
    with pytest.raises(UsageError, match="unknown experiment 'fig-99'"):
        find("fig-99")


def test_deterministic_on_the_same_machine_is_exactly_zero() -> None:
    rows = find("hardware").run(Setting(quick=True))["rows"]
    same = [row for row in rows if row["from"] == row["to"] and row["deterministic"] == "on"]
    assert same
    assert all(row["ours"] == 0 for row in same)

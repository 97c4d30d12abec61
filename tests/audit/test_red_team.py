"""A verdict with a red team says how near the attacks come."""

from __future__ import annotations

from pathlib import Path

import pytest
from torch import nn

from tests.conftest import tiny_task
from trainwitness import Threshold, Trace, record, verify
from trainwitness.audit.red_team import with_red_team
from trainwitness.core.errors import UsageError


def test_margins_are_logarithms_of_the_best_error_over_the_threshold(tmp_path: Path) -> None:
    task = tiny_task()
    record(task, tmp_path / "t", steps=6)
    trace = Trace.open(tmp_path / "t")
    strict = verify(trace, task=task, threshold=Threshold(value=1e-9))
    verdict, margin = with_red_team(strict, trace, task)
    assert verdict.verdict == "ACCEPT"
    assert verdict.properties["forgery_margin"].standing == "established"
    assert [step.step for step in margin.steps] == [0, 3, 5]
    assert margin.null_space == (4 - 2) * (8 - 2)  # three classes, of which a common shift is free
    assert "12 dimensions in which data can change unseen" in verdict.properties["forgery_margin"].why
    for step in margin.steps:
        assert step.best_whole.error == pytest.approx(1e-9 * 10**step.whole)
        assert step.best_single.error == pytest.approx(1e-9 * 10**step.single)
        assert len(step.best_single.replaced) == 1
        assert len(step.best_whole.replaced) == 8
    lax = verify(trace, task=task, threshold=Threshold(value=1e-2))
    verdict, margin = with_red_team(lax, trace, task)
    assert verdict.properties["forgery_margin"].standing == "refuted"
    assert any("does not establish which data" in reason for reason in verdict.reasons)
    assert min(margin.whole, margin.single) < 1
    assert len(margin.to_json()["steps"]) == 3


def test_a_required_margin_decides(tmp_path: Path) -> None:
    task = tiny_task()
    record(task, tmp_path / "t", steps=3)
    trace = Trace.open(tmp_path / "t")
    answers = {}
    for eps in (1e-9, 1e-2):
        verdict = verify(trace, task=task, threshold=Threshold(value=eps))
        answers[eps] = with_red_team(verdict, trace, task, required=True, attacks=["swap-search"])[0]
    assert answers[1e-9].verdict == "ACCEPT"
    assert answers[1e-2].verdict == "INCONCLUSIVE"
    assert answers[1e-2].reasons[0].startswith("forgery_margin is required")


def test_a_red_team_needs_a_threshold(tmp_path: Path) -> None:
    task = tiny_task()
    record(task, tmp_path / "t", steps=2)
    with pytest.raises(UsageError, match="needs a threshold"):
        with_red_team(verify(tmp_path / "t", task=task), Trace.open(tmp_path / "t"), task)


def test_what_cannot_be_attacked_is_unknown(tmp_path: Path) -> None:
    model = lambda: nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3))  # noqa: E731
    task = tiny_task(model=model, initialisation="torch")
    record(task, tmp_path / "t", steps=3)
    trace = Trace.open(tmp_path / "t")
    verdict, margin = with_red_team(verify(trace, task=task, threshold=Threshold(value=1e-6)), trace, task)
    assert verdict.verdict == "ACCEPT"
    found = {forgery.attack for step in margin.steps for forgery in (step.best_whole, step.best_single)}
    assert found <= {"neighbour", "optimise"}  # the others need single gradients
    assert len(margin.steps) == 3
    verdict, margin = with_red_team(
        verify(trace, task=task, threshold=Threshold(value=1e-6)), trace, task, attacks=["swap-search"]
    )
    assert margin.steps == []
    assert verdict.properties["forgery_margin"].standing == "unknown"
    assert "batch norm" in verdict.properties["forgery_margin"].why

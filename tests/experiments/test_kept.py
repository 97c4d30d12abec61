"""Kept results: the page made of them, verdicts on claims, the list, and whole runs that resume."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_cli import envelope, run
from trainwitness.core.errors import ResultDamaged, UsageError
from trainwitness.experiments import kept
from trainwitness.experiments.claim import Claim, judge
from trainwitness.experiments.claims import CLAIMS
from trainwitness.experiments.experiment import EXPERIMENTS, Setting
from trainwitness.experiments.kept import Kept, measure_all, read_kept
from trainwitness.experiments.summary import markdown

ROOT = Path(__file__).parents[2]


def test_the_kept_results_are_the_page() -> None:
    """docs/results.md is what `reproduce --summary results` prints."""
    assert markdown(ROOT / "results") == (ROOT / "docs" / "results.md").read_text()


def test_what_is_no_result_is_refused_and_other_results_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "shuffle-x.json").write_text('{"kind": "reproduce/shuffle"}')
    with pytest.raises(ResultDamaged, match="not a result of reproduce"):
        read_kept(tmp_path)
    (tmp_path / "shuffle-x.json").write_text('{"kind": "calibrate"}')
    assert read_kept(tmp_path) == []


def measured(*rows: dict[str, Any], quick: bool = False) -> list[Kept]:
    result = {"rows": list(rows), "notes": [], "quick": quick, "device": "cpu"}
    return [Kept(Path("x.json"), "shuffle", [], {"processor": "p", "torch": "t"}, result)]


@pytest.mark.parametrize(
    ("claim", "ours", "verdict"),
    [
        (Claim("p", "s", "shuffle", 1e-8), [2e-8, 9e-8], "*confirmed*"),
        (Claim("p", "s", "shuffle", 1e-8), [2e-8, 2e-7], "*differs*: unexplained"),
        (Claim("p", "s", "shuffle", 1e-8, why="kernels"), [1e-10], "*differs*: kernels"),
        (Claim("p", "s", "shuffle", 1e-6, rule="at most"), [1e-9], "*confirmed*"),
        (Claim("p", "s", "shuffle", 1e-6, rule="at most"), [2e-6], "*differs*: unexplained"),
        (Claim("p", "s", "shuffle", 4, rule="at least"), [3.9], "*differs*: unexplained"),
        (Claim("p", "s", "shuffle", 0.0, rule="exactly"), [0.0], "*confirmed*"),
        (Claim("p", "s", "shuffle", 0.0, rule="exactly"), [0.0, 1e-12], "*differs*: unexplained"),
        (Claim("p", "s", "shuffle", rule="none"), [1.0], "*beyond the paper*"),
        (Claim("p", "s", "shuffle", 1.0, suspect=lambda rows: f"{len(rows)} rows"), [1.0],
         "*suspect in the paper*: 1 rows"),
        (Claim("p", "s", "other", 1.0), [1.0], "not measured yet: `trainwitness reproduce other`"),
    ],
)  # fmt: skip
def test_a_claim_is_judged_by_what_was_measured(claim: Claim, ours: Sequence[float], verdict: str) -> None:
    assert judge(claim, measured(*({"ours": value} for value in ours))).verdict == verdict


def test_figures_made_of_several_rows_keep_runs_apart() -> None:
    ratio = Claim("p", "s", "shuffle", 2.0, figures=lambda rows: [rows[1]["ours"] / rows[0]["ours"]], within=1.1)
    runs = [*measured({"ours": 1.0}, {"ours": 2.0}), *measured({"ours": 10.0}, {"ours": 20.0})]
    assert judge(ratio, runs).ours == [2.0, 2.0]


def test_a_claim_looks_only_at_its_own_rows_and_at_full_runs() -> None:
    claim = Claim("p", "s", "shuffle", 1.0, {"task": "a"})
    rows = [{"task": "a", "ours": 2.0}, {"task": "b", "ours": 99.0}, {"task": "a", "ours": None}]
    assert judge(claim, measured(*rows)).ours == [2.0]
    assert judge(claim, measured(*rows, quick=True)).ours == []
    assert judge(claim, measured(*rows)).cells == ["s (p)", "about 1", "2", "2", "*confirmed*"]


def test_a_claim_can_make_its_figures_of_several_rows() -> None:
    claim = Claim("p", "s", "shuffle", 1.0, {"task": "a"}, rule="at least", why="w",
                  figures=lambda rows: [rows[1]["x"] / rows[0]["x"]])  # fmt: skip
    assert judge(claim, measured({"task": "a", "x": 2}, {"task": "b", "x": 9}, {"task": "a", "x": 3})).ours == [1.5]
    assert judge(claim, measured({"task": "a", "x": 3}, {"task": "a", "x": 2})).verdict == "*differs*: w"


def test_every_claim_is_about_an_experiment_that_exists() -> None:
    assert {claim.experiment for claim in CLAIMS} <= set(EXPERIMENTS)


def test_the_two_figures_we_suspect_are_named() -> None:
    rows = [{"task": "lenet-mnist", "precision": "float16", "replaced": 100, "benign": 3e-5, "update": 2e-3}]
    result = {"rows": [rows[0] | {"orders above benign": 2.0}], "notes": [], "quick": False, "device": "cpu"}
    stages = Kept(Path("x"), "forging-stages", [], {"processor": "p", "torch": "t"}, result)
    found = [judge(claim, [stages, *read_kept(ROOT / "results")]).verdict for claim in CLAIMS]
    suspects = [verdict for verdict in found if "suspect in the paper" in verdict]
    assert any("larger class" in verdict for verdict in suspects)
    assert any("would be 3.0e-01; its whole update is 2.0e-03" in verdict for verdict in suspects)


def test_a_whole_run_keeps_each_result_and_resumes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[str] = []

    def fake(name: str, setting: Setting) -> dict[str, Any]:
        if name == "hardware" and "hardware" not in ran:
            ran.append(name)
            raise KeyboardInterrupt
        if name == "accuracy":
            raise UsageError("no such data")
        ran.append(name)
        return {
            "quick": setting.quick,
            "device": setting.device,
            "seconds": 1.0,
            "rows": [{"ours": 1.0}],
            "notes": [],
        }

    monkeypatch.setattr(kept, "measure", fake)
    names = ["shuffle", "hardware", "accuracy"]
    run_all = lambda: list(measure_all(Setting(quick=True), tmp_path, names, say=lambda _: None))  # noqa: E731
    with pytest.raises(KeyboardInterrupt):
        run_all()
    outcomes = run_all()
    assert ran == ["shuffle", "hardware", "hardware"]
    assert [(one.name, one.resumed, one.failure is None) for one in outcomes] == [
        ("shuffle", True, True), ("hardware", False, True), ("accuracy", False, False),
    ]  # fmt: skip
    assert json.loads(outcomes[1].path.read_text())["command"] == ["trainwitness", "reproduce", "hardware", "--quick"]


def test_all_on_the_command_line_writes_one_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "EXPERIMENTS", {"shuffle": EXPERIMENTS["shuffle"]})
    monkeypatch.setattr(kept.measure_all, "__defaults__", (("shuffle",),))
    out, _ = run("reproduce", "--all", "--quick", cwd=tmp_path)
    assert "report: reproduced/report.html" in out
    assert "shuffle" in (tmp_path / "reproduced" / "report.html").read_text()
    out, _ = run("reproduce", "--all", "--quick", cwd=tmp_path)
    assert "(kept from before)" in out
    out, _ = run("reproduce", "--json", "-", cwd=tmp_path)
    rows = envelope(out, "experiments")["experiments"]
    assert rows[0]["status"].startswith("cpu quick in")
    assert rows[0]["command"] == "reproduce shuffle --quick"


def test_one_thing_at_a_time(tmp_path: Path) -> None:
    _, err = run("reproduce", "shuffle", "--all", cwd=tmp_path, code=2)
    assert "one experiment, --all or --summary?" in err
    _, err = run("reproduce", "--summary", "absent", cwd=tmp_path, code=2)
    assert "not a folder" in err

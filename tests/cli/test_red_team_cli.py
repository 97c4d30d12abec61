"""calibrate, verify --calibration, forge, play and reproduce as a user types them."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.cli.test_cli import envelope, run
from trainwitness import Trace


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("red")
    run("record", "mlp-digits", "--out", "run.trace", "--steps", "30", "--set", "momentum=0.5", cwd=made)
    out, _ = run("calibrate", "run.trace", "--out", "cal.json", "--steps", "15", "--json", "same.json", cwd=made)
    assert "eps_repr (largest)" in out
    assert "the examples of each batch in another order" in out
    result = envelope((made / "cal.json").read_text(), "calibrate")
    assert result == envelope((made / "same.json").read_text(), "calibrate")
    assert result["task"]["options"]["momentum"] == 0.5
    return made


@pytest.mark.parametrize("policy", ["extreme", "largest:5", "adaptive"])
def test_a_calibrated_verdict_says_where_its_threshold_comes_from(folder: Path, policy: str) -> None:
    out, _ = run("verify", "run.trace", "--calibration", "cal.json", "--policy", policy, cwd=folder)
    assert out.startswith("ACCEPT")
    assert "honest errors" in out
    assert "held-out honest errors are above it" in out


def test_a_red_team_on_the_command_line(folder: Path) -> None:
    out, _ = run("verify", "run.trace", "--calibration", "cal.json", "--red-team", "--json", "v.json", cwd=folder)
    assert "forgery_margin attacks on 3 steps" in out
    result = envelope((folder / "v.json").read_text(), "verify")
    assert len(result["red_team"]["steps"]) == 3
    assert result["properties"]["forgery_margin"]["standing"] == "established"


def test_a_margin_can_be_required(folder: Path) -> None:
    required = ["verify", "run.trace", "--require", "forgery_margin"]
    out, _ = run(*required, "--calibration", "cal.json", "--red-team", cwd=folder)
    assert out.startswith("ACCEPT")
    run(*required, "--threshold", "0.01", "--red-team", cwd=folder, code=4)
    run(*required, "--calibration", "cal.json", cwd=folder, code=4)  # nobody attacked


def test_no_folder_of_this_machine_reaches_a_result(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["trainwitness", "inspect", str(folder / "run.trace"), "--json", str(folder / "i.json")]
    monkeypatch.setattr(sys, "argv", words)
    run(*words[1:], cwd=folder)
    assert json.loads((folder / "i.json").read_text())["command"][1:] == ["inspect", "run.trace", "--json", "i.json"]


def test_forging_one_step_and_a_whole_unlearning_claim(folder: Path, tmp_path: Path) -> None:
    trace = Trace.open(folder / "run.trace")
    row = next(iter(trace.frames())).record.rows[0][0]
    one, every = tmp_path / "one", tmp_path / "every"
    out, _ = run("forge", "run.trace", "--step", "0", "--remove", str(row), "--out", one, cwd=folder)
    assert "1 of 100 examples replaced" in out
    out, _ = run(
        "forge", "run.trace", "--all-occurrences", "--remove", str(row), "--out", every, "--json", "-", cwd=folder
    )
    forged = envelope(out, "forge")["forgeries"]
    assert len(forged) == sum(row in frame.record.rows[0] for frame in trace.frames())
    assert all(row not in frame.record.rows[0] for frame in Trace.open(every).frames())
    out, _ = run("verify", every, "--calibration", "cal.json", cwd=folder, code=1)
    assert out.startswith("REJECT")


def test_playing_the_game(folder: Path) -> None:
    out, _ = run("play", "mlp-digits", "--rounds", "2", "--steps", "5", "--threshold", "1e-7", cwd=folder)
    assert "swap-search won 0 of 2 rounds" in out
    out, _ = run("play", "mlp-digits", "--rounds", "2", "--steps", "5", "--threshold", "1", cwd=folder, code=1)
    assert "won 2 of 2 rounds" in out
    free = ["play", "mlp-digits", "--attack", "optimise", "--attack-set", "projected=false", "--seconds", "1"]
    out, _ = run(*free, "--rounds", "1", "--precision", "bfloat16", "--threshold", "1", cwd=folder)
    assert "1 rejected: outside the domain" in out


def test_reproduce_lists_and_measures(folder: Path) -> None:
    out, _ = run("reproduce", cwd=folder)
    assert "reproduction-error" in out
    assert "forging-stages" in out
    out, _ = run("reproduce", "shuffle", "--quick", "--json", "s.json", cwd=folder)
    assert "note: largest of 10 random orders" in out
    rows = envelope((folder / "s.json").read_text(), "reproduce/shuffle")["rows"]
    assert rows[0]["ratio"] == pytest.approx(rows[0]["ours"] / 1e-8)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["calibrate", "nonsense", "--out", "x.json"], 2, "unknown task"),
        (["calibrate", "mlp-digits", "--out", "no/such/x.json", "--steps", "2"], 3, "cannot be written"),
        (["calibrate", "mlp-digits", "--out", "x.json", "--steps", "9", "--horizon", "5"], 2, "9 steps of 5"),
        (["verify", "run.trace", "--calibration", "absent.json"], 3, "cannot be read"),
        (["verify", "run.trace", "--calibration", "run.trace/manifest.json"], 3, "not a calibration"),
        (
            ["verify", "run.trace", "--calibration", "cal.json", "--threshold", "1"],
            2,
            "a threshold and a calibration",
        ),
        (["verify", "run.trace", "--calibration", "cal.json", "--policy", "lenient"], 2, "unknown policy"),
        (["verify", "run.trace", "--calibration", "cal.json", "--precision", "float64"], 3, "does not fit"),
        (["verify", "run.trace", "--threshold", "inf"], 2, "finite"),
        (["verify", "run.trace", "--red-team"], 2, "needs a threshold"),
        (["forge", "run.trace", "--out", "f"], 2, "which steps?"),
        (["forge", "run.trace", "--step", "3", "--out", "f"], 2, "what is to be replaced?"),
        (["forge", "run.trace", "--step", "99", "--fraction", "1", "--out", "f"], 2, "step 99"),
        (["forge", "run.trace", "--step", "3", "--fraction", "2", "--out", "f"], 2, "forging fraction"),
        (
            ["forge", "run.trace", "--step", "3", "--fraction", "1", "--attack", "x", "--out", "f"],
            2,
            "unknown attack",
        ),
        (["forge", "run.trace", "--step", "3", "--fraction", "1", "--pool", "9", "--out", "f"], 2, "a pool of 9"),
        (["forge", "run.trace", "--all-occurrences", "--remove", "9999", "--out", "f"], 2, "no step has"),
        (["play", "mlp-digits"], 2, "what does the verifier allow?"),
        (["play", "mlp-digits", "--threshold", "1", "--attack-set", "speed=9"], 2, "no setting 'speed'"),
        (["play", "mlp-digits", "--threshold", "1", "--attack-set", "speed"], 2, "not key=value"),
        (["play", "softmax-digits", "--calibration", "cal.json"], 3, "does not fit"),
        (["reproduce", "fig-99"], 2, "unknown experiment"),
    ],
)
def test_bad_input(folder: Path, arguments: list[str], code: int, message: str) -> None:
    _, err = run(*arguments, cwd=folder, code=code)
    assert message in err
    assert not (folder / "f").exists()


def test_a_mismatch_can_be_allowed_and_is_inconclusive(folder: Path) -> None:
    arguments = ["verify", "run.trace", "--calibration", "cal.json", "--precision", "float64", "--allow-mismatch"]
    out, _ = run(*arguments, "--json", "m.json", cwd=folder, code=4)
    assert out.startswith("INCONCLUSIVE")
    assert "the calibration does not fit" in out
    assert json.loads((folder / "m.json").read_text())["result"]["verdict"] == "INCONCLUSIVE"

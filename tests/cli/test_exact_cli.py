"""claim, forgeability and exact attacks as a user types them."""

from __future__ import annotations

import contextlib
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from tests.cli.test_cli import envelope, run
from trainwitness import Trace, build_task
from trainwitness.cli.main import app


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("exact")
    run("record", "softmax-digits", "--out", "run.trace", "--steps", "4", "--batch-size", "60", cwd=made)
    rows = next(iter(Trace.open(made / "run.trace").frames())).record.rows[0]
    data = build_task("softmax-digits").dataset
    np.savez(made / "mine.npz", x=data.inputs[rows[0]], y=data.labels[rows[0]])
    np.save(made / "other.npy", np.full((28, 28), 7, np.uint8))
    np.save(made / "short.npy", np.zeros(5))
    return made


def test_forging_with_valid_images_passes_a_fixed_threshold(folder: Path) -> None:
    out, _ = run(
        "forge", "run.trace", "--step", "2", "--fraction", "1", "--attack", "lattice", "--out", "forged.trace",
        "--seconds", "30", "--json", "f.json", cwd=folder,
    )  # fmt: skip
    assert "in float64 the two batches' steps differ by" in out
    result = envelope((folder / "f.json").read_text(), "forge")["forgeries"][0]
    assert result["problems"] == []
    assert len(result["carried"]) == 60
    assert result["residual"] < 1e-6
    out, _ = run("verify", "forged.trace", "--threshold", "1e-6", cwd=folder, code=1)
    assert "data_matches" in out  # the error passes; only the verifier's own copy of the data refutes it
    assert "refuted      reproduced" not in out


def test_a_claim_is_found_or_not(folder: Path) -> None:
    out, _ = run("claim", "run.trace", "--example", "mine.npz", "--json", "c.json", cwd=folder, code=1)
    assert "exact   row" in out
    assert "FOUND" in out
    result = envelope((folder / "c.json").read_text(), "claim")
    assert result["uses"][0]["same_label"] is True
    out, _ = run("claim", "run.trace", "--example", "other.npy", cwd=folder)
    assert out.strip().endswith("not found")


def test_forgeability_of_a_trace_and_of_a_task(folder: Path) -> None:
    arguments = ["forgeability", "run.trace", "--step", "2", "--seconds", "1", "--pictures", "p.png"]
    with contextlib.chdir(folder):
        done = CliRunner().invoke(app, [*arguments, "--json", "a.json"])
    out = done.stdout
    assert "valid within tolerance: " in out
    assert "originals above, forged below" in out
    assert (folder / "p.png").read_bytes().startswith(b"\x89PNG")
    result = envelope((folder / "a.json").read_text(), "forgeability")
    assert [answer["question"] for answer in result["answers"]] == [
        "real numbers", "valid within tolerance", "bit for bit",
    ]  # fmt: skip
    assert result["answers"][0]["standing"] == "shown"
    assert done.exit_code == (result["answers"][1]["standing"] == "shown")  # which of them depends on the time given
    out, _ = run("forgeability", "mlp-digits", "--batch-size", "1", "--seconds", "1", cwd=folder)
    assert "EXCLUDED" in out


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["claim", "run.trace"], 2, "--example"),
        (["claim", "run.trace", "--example", "absent.npy"], 3, "not an example"),
        (["claim", "run.trace", "--example", "short.npy"], 2, "shape [5]"),
        (["claim", "absent.trace", "--example", "mine.npz"], 3, "absent.trace"),
        (["forgeability", "nonsense"], 2, "unknown task"),
        (["forgeability", "run.trace", "--step", "99"], 2, "step 99"),
        (["forgeability", "run.trace", "--batch-size", "5"], 2, "a trace has its task's options"),
        (["forgeability", "run.trace", "--calibration", "absent.json"], 3, "cannot be read"),
        (
            ["forge", "run.trace", "--step", "0", "--fraction", "1", "--attack", "relabel", "--out", "x"],
            2,
            "no exchange of up to 3 labels",
        ),
    ],
)
def test_bad_input(folder: Path, arguments: list[str], code: int, message: str) -> None:
    _, err = run(*arguments, cwd=folder, code=code)
    assert message in err

"""Every verb as a user types it: output, JSON, exit codes, bad input."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from trainwitness import Trace
from trainwitness.cli.main import app

TRAINWITNESS = [str(Path(sys.executable).with_name("trainwitness"))]


def run(*arguments: str | Path, cwd: Path, code: int = 0, env: dict[str, str] | None = None) -> tuple[str, str]:
    """The command line inside this process: as users see it, without waiting for PyTorch to load again."""
    with contextlib.chdir(cwd):
        done = CliRunner().invoke(app, [*map(str, arguments)], env={"TRAINWITNESS_DATA": ""} | (env or {}))
    assert done.exit_code == code, done.output
    return done.stdout, done.stderr


def run_process(*arguments: str | Path, cwd: Path, code: int = 0) -> tuple[str, str]:
    """The installed command."""
    done = subprocess.run(
        [*TRAINWITNESS, *map(str, arguments)],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout, done.stderr


def envelope(text: str, kind: str) -> dict[str, Any]:
    content = json.loads(text)
    assert list(content) == ["schema", "kind", "command", "environment", "result"]
    assert (content["schema"], content["kind"]) == ("trainwitness/result/1", kind)
    assert content["environment"]["torch"]
    result: dict[str, Any] = content["result"]
    return result


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cli")
    out, _ = run("record", "softmax-digits", "--out", "run.trace", "--steps", "60", "--json", "r.json", cwd=folder)
    assert "will take about" in out
    assert "recorded 60 steps of softmax-digits" in out
    assert "trace: run.trace" in out
    result = envelope((folder / "r.json").read_text(), "record")
    assert result["steps"] == 60
    assert result["test_accuracy"] > 0.5
    return folder / "run.trace"


@pytest.mark.slow
def test_the_demo_tells_the_whole_story_twice_in_a_row(tmp_path: Path) -> None:
    for _ in range(2):
        out, err = run_process("demo", "--json", "d.json", cwd=tmp_path)
        answers = re.findall(r"^   (ACCEPT|REJECT)$", out, flags=re.MULTILINE)
        assert answers == ["ACCEPT", "REJECT", "REJECT", "ACCEPT"]
        assert "established  reproduced     no error is above" in out.partition("10. ")[2]
        assert "refuted      data_committed" in out
        assert "Open demo/report.html in a browser." in out
        assert err == ""
    result = envelope((tmp_path / "d.json").read_text(), "demo")
    assert len(result["steps"]) == 13
    assert result["left_out"] == []
    page = (tmp_path / "demo" / "report.html").read_text()
    assert page.count("<section") == 10
    assert "trainwitness verify run.trace" in page


def test_the_demo_goes_on_without_the_extras(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from trainwitness.cli import demo

    short = (
        demo.Part("Recording.", "record softmax-digits --out run.trace --steps 3"),
        demo.Part("Not here.", "report *.json", needs="no_such_module report"),
        demo.Part("Reading.", "inspect run.trace --json i.json", shows=("task",)),
    )
    monkeypatch.setattr(demo, "STORY", short)
    out, _ = run("demo", cwd=tmp_path)
    assert "left out: needs pip install 'trainwitness[report]'" in out
    assert "task            softmax-digits" in out
    monkeypatch.setattr(demo, "STORY", (demo.Part("Wrong.", "inspect absent", 1),))
    out, _ = run("demo", cwd=tmp_path, code=70)
    assert "this should have ended with exit code 1, not 3" in out


def test_demo_does_not_replace_what_is_not_a_demo(recorded: Path) -> None:
    _, err = run("demo", "--out", recorded, cwd=recorded.parent, code=3)
    assert "is not a demo" in err
    assert (recorded / "manifest.json").exists()


def test_tasks(tmp_path: Path) -> None:
    out, _ = run("tasks", cwd=tmp_path)
    assert "vggmini-cifar10      5,742,986" in out
    listed, _ = run("tasks", "--json", "-", cwd=tmp_path)
    tasks = {task["name"]: task for task in envelope(listed, "tasks")["tasks"]}
    assert tasks["transformer-imdb"]["parameters"] == 657_758
    assert tasks["lenet-digits"]["data_available"]
    assert not tasks["lenet-mnist"]["data_available"]


@pytest.mark.real_data
def test_tasks_find_real_data(tmp_path: Path, data_folder: Path) -> None:
    for arguments, env in ((["--data", str(data_folder)], {}), ([], {"TRAINWITNESS_DATA": str(data_folder)})):
        listed, _ = run("tasks", "--json", "-", *arguments, cwd=tmp_path, env=env)
        assert all(task["data_available"] for task in envelope(listed, "tasks")["tasks"])


@pytest.mark.real_data
@pytest.mark.parametrize("task", ["fcn-adult", "lenet-mnist", "transformer-imdb"])
def test_record_on_real_data(tmp_path: Path, data_folder: Path, task: str) -> None:
    run("record", task, "--out", "t", "--steps", "3", "--batch-size", "20", "--data", data_folder, cwd=tmp_path)
    assert Trace.open(tmp_path / "t").check().steps == 3


def test_inspect_says_what_was_recorded(recorded: Path) -> None:
    out, _ = run("inspect", recorded, cwd=recorded.parent)
    for part in ("sealed, 60 steps", "softmax-digits", "7,850 parameters", "digits, 1,500 rows", "float32 on cpu"):
        assert part in out
    text, words = run("inspect", recorded, "--json", "-", cwd=recorded.parent)
    result = envelope(text, "inspect")
    trace = Trace.open(recorded)
    assert "sealed, 60 steps" in words
    assert trace.seal is not None
    assert result["id"] == trace.id
    assert result["checked"]["step_root"] == trace.seal.step_root
    assert result["manifest"]["task"] == {"name": "softmax-digits", "options": {}}


def test_options_reach_the_trace(tmp_path: Path) -> None:
    run(
        *("record", "mlp-digits", "--out", "t", "--steps", "4", "--batch-size", "8", "--lr", "0.5", "--seed", "3"),
        *("--precision", "bfloat16", "--threads", "1", "--checkpoint-every", "2", "--set", "hidden=5,4"),
        *("--set", "momentum=0.9", "--deterministic"),
        cwd=tmp_path,
    )
    manifest = Trace.open(tmp_path / "t").manifest
    assert manifest.task is not None
    assert manifest.task.options == {
        "hidden": [5, 4], "momentum": 0.9, "batch_size": 8, "learning_rate": 0.5, "seed": 3,
    }  # fmt: skip
    assert (manifest.numerics.precision, manifest.numerics.threads, manifest.seed) == ("bfloat16", 1, 3)
    assert manifest.numerics.deterministic
    assert manifest.checkpoint_every == 2
    assert next(Trace.open(tmp_path / "t").segments()).after.tensors["param/1.weight"].shape == (5, 784)


def test_the_same_command_gives_the_same_trace(tmp_path: Path) -> None:
    for name in ("a", "b"):
        run("record", "softmax-digits", "--out", name, "--steps", "5", cwd=tmp_path)
    roots = {Trace.open(tmp_path / name).check().step_root for name in ("a", "b")}
    assert len(roots) == 1


def test_a_users_own_task(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "import numpy as np, torch\nfrom torch import nn\nimport trainwitness as tw\n"
        "def task(batch_size=4, seed=0):\n"
        "    data = tw.Dataset('mine', np.random.default_rng(0).random((20, 3), np.float32), np.arange(20) % 2)\n"
        "    return tw.Task(model=lambda: nn.Linear(3, 2), dataset=data, loss=nn.functional.cross_entropy,\n"
        "        optimizer=lambda p, lr: torch.optim.Adam(p, lr=lr), seed=seed,\n"
        "        schedule=tw.ShuffledEpochs(20, batch_size, 0.01, seed))\n"
    )
    run("record", "mine:task", "--out", "t", "--steps", "6", "--batch-size", "5", cwd=tmp_path)
    assert Trace.open(tmp_path / "t").check().steps == 6
    _, err = run("record", "mine:task", "--out", "u", "--lr", "1", cwd=tmp_path, code=2)
    assert "learning_rate" in err
    assert not (tmp_path / "u").exists()


def test_pack_and_unpack(recorded: Path, tmp_path: Path) -> None:
    run("pack", recorded, "--out", "p.zip", cwd=tmp_path)
    run("unpack", "p.zip", "--out", "again", cwd=tmp_path)
    assert Trace.open(tmp_path / "again").check() == Trace.open(recorded).check()
    out, _ = run("inspect", "p.zip", cwd=tmp_path)
    assert "60 steps" in out
    for arguments in (("pack", recorded, "--out", "p.zip"), ("unpack", "p.zip", "--out", "again")):
        _, err = run(*arguments, cwd=tmp_path, code=3)
        assert "already exists" in err


def test_ctrl_c_is_130_and_resume_goes_on(tmp_path: Path) -> None:
    command = ["record", "softmax-digits", "--out", "t", "--steps", "1500"]
    process = subprocess.Popen([*TRAINWITNESS, *command], cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    while not (tmp_path / "t" / "chunk-000001.twc").exists():
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate()
    assert process.returncode == 130
    assert "Traceback" not in err
    interrupted = Trace.open(tmp_path / "t").check().steps
    assert 256 <= interrupted < 1500
    out, _ = run("inspect", "t", cwd=tmp_path)
    assert "UNSEALED" in out
    _, err = run(*command, cwd=tmp_path, code=3)
    assert "already holds a trace" in err
    run(*command, "--resume", cwd=tmp_path)
    out, _ = run("inspect", "t", cwd=tmp_path)
    assert "sealed, 1500 steps" in out
    assert f"resumed at      step {interrupted}" in out
    run("record", "softmax-digits", "--out", "straight", "--steps", "1500", cwd=tmp_path)
    finals = {Trace.open(tmp_path / name).check().final_state for name in ("t", "straight")}
    assert len(finals) == 1


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["record"], 2, "Missing argument"),
        (["record", "softmax-digits"], 2, "--out"),
        (["record", "nonsense", "--out", "t"], 2, "unknown task"),
        (["record", "softmax-digits", "--out", "t", "--steps", "0"], 2, "steps"),
        (["record", "softmax-digits", "--out", "t", "--steps", "many"], 2, "steps"),
        (["record", "softmax-digits", "--out", "t", "--precision", "float8"], 2, "float8"),
        (["record", "softmax-digits", "--out", "t", "--device", "toaster"], 2, "toaster"),
        (["record", "softmax-digits", "--out", "t", "--batch-size", "1501"], 2, "1500 rows"),
        (["record", "softmax-digits", "--out", "t", "--lr", "nan"], 2, "greater than or equal to 0"),
        (["record", "softmax-digits", "--out", "t", "--set", "momentum"], 2, "key=value"),
        (["record", "softmax-digits", "--out", "t", "--set", "colour=red"], 2, "colour"),
        (["record", "no.such:task", "--out", "t"], 2, "no module"),
        (["record", "lenet-mnist", "--out", "t"], 3, "no data folder"),
        (["record", "lenet-mnist", "--out", "t", "--data", "."], 3, "looked for"),
        (["record", "lenet-mnist", "--out", "t", "--data", "absent"], 3, "not a folder"),
        (["record", "softmax-digits", "--out", "/dev/null/t", "--steps", "2"], 3, "Not a directory"),
        (["record", "softmax-digits", "--out", "/proc/t", "--steps", "2"], 3, "/proc/t"),
        (["inspect"], 2, "Missing argument"),
        (["inspect", "absent"], 3, "no such trace"),
        (["inspect", "."], 3, "not a trace"),
        (["inspect", "/dev/null"], 3, "no such trace"),
        (["pack", "absent", "--out", "p"], 3, "no such trace"),
        (["unpack", "absent", "--out", "p"], 3, "no such trace"),
        (["frobnicate"], 2, "No such command"),
        (["tasks", "--json", "/no/such/folder/x.json"], 3, "cannot be written"),
    ],
)
def test_bad_input(tmp_path: Path, arguments: list[str], code: int, message: str) -> None:
    _, err = run(*arguments, cwd=tmp_path, code=code)
    assert message in " ".join(err.replace("│", " ").split())
    assert list(tmp_path.iterdir()) == []


def test_a_corrupt_trace_is_3_with_file_and_offset(recorded: Path, tmp_path: Path) -> None:
    shutil.copytree(recorded, tmp_path / "t")
    path = tmp_path / "t" / "chunk-000000.twc"
    content = bytearray(path.read_bytes())
    content[1000] ^= 1
    path.write_bytes(content)
    _, err = run("inspect", "t", cwd=tmp_path, code=3)
    assert "chunk-000000.twc, offset" in err
    run("pack", "t", "--out", "p.zip", cwd=tmp_path, code=3)
    assert not (tmp_path / "p.zip").exists()


def test_an_internal_error_is_70_and_says_how_to_report(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("def task():\n    return 1 / 0\n")
    _, err = run("record", "broken:task", "--out", "t", cwd=tmp_path, code=70)
    assert "ZeroDivisionError" in err
    assert "TRAINWITNESS_DEBUG=1" in err


def test_version_names_the_revision(tmp_path: Path) -> None:
    out, _ = run_process("--version", cwd=tmp_path)
    assert re.fullmatch(r"trainwitness 0\.\S+ \(revision [0-9a-f]{7,40}(-dirty)?\)\n", out)


@pytest.mark.parametrize(
    ("typed", "offered"), [("trainwitness ver", "verify"), ("trainwitness verify --thre", "--threshold")]
)
def test_the_shell_completes(tmp_path: Path, typed: str, offered: str) -> None:
    """What bash asks for on Tab."""
    asked = {"_TRAINWITNESS_COMPLETE": "complete_bash", "COMP_WORDS": typed, "COMP_CWORD": str(typed.count(" "))}
    done = subprocess.run(
        TRAINWITNESS, cwd=tmp_path, env=os.environ | asked, capture_output=True, text=True, check=False
    )
    assert offered in done.stdout.split()


def test_a_closed_pipe_is_no_error_message(recorded: Path) -> None:
    command = f"{TRAINWITNESS[0]} inspect {recorded} | head -c 1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    assert done.stderr == ""


def test_text_from_a_trace_cannot_forge_lines_or_steer_the_terminal(recorded: Path, tmp_path: Path) -> None:
    from trainwitness.trace.rewrite import write_trace

    trace = Trace.open(recorded)
    manifest = trace.manifest.model_copy(update={"model": "x\n  step root       FAKE\x1b]0;owned\x07"})
    write_trace(tmp_path / "t", manifest, trace.initial_state(), ((s.records[0], s.after) for s in trace.segments()))
    out, _ = run("inspect", "t", cwd=tmp_path)
    assert "\x1b" not in out
    assert len([line for line in out.splitlines() if line.startswith("  step root")]) == 1


def test_reading_a_trace_runs_nothing_of_the_folder_it_lies_in(recorded: Path, tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    script = tmp_path / "hook.sh"
    script.write_text(f"#!/bin/sh\ntouch {tmp_path}/executed\n")
    script.chmod(0o755)
    subprocess.run(["git", "-C", str(tmp_path), "config", "core.fsmonitor", str(script)], check=True)
    run_process("inspect", recorded, "--json", "-", cwd=tmp_path)
    assert not (tmp_path / "executed").exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ["--lr", "inf"],
        ["--set", "momentum=nan"],
        ["--threads", "5000"],
        ["--device", "x" * 40],
    ],
)
def test_impossible_values_are_usage_errors(tmp_path: Path, arguments: list[str]) -> None:
    _, err = run("record", "softmax-digits", "--out", "t", *arguments, cwd=tmp_path, code=2)
    assert "internal error" not in err


def test_verify_on_the_command_line(recorded: Path, tmp_path: Path) -> None:
    from safetensors.torch import save_file

    out, _ = run("verify", recorded, "--json", "v.json", cwd=tmp_path)
    assert out.startswith("ACCEPT\n")
    assert "established  initialised" in out
    result = envelope((tmp_path / "v.json").read_text(), "verify")
    assert {"verdict", "threshold", "max_l2", "reasons", "properties", "steps"} <= set(result)
    assert [set(step) >= {"step", "l2", "linf", "relative"} for step in result["steps"]] == [True] * 60
    text, words = run("verify", recorded, "--precision", "float64", "--json", "-", cwd=tmp_path, code=4)
    assert "INCONCLUSIVE" in words
    inconclusive = envelope(text, "verify")
    assert inconclusive["verdict"] == "INCONCLUSIVE"
    from trainwitness import Numerics, verify

    manifest = Trace.open(recorded).manifest
    python = verify(recorded, numerics=Numerics(precision="float64", threads=manifest.numerics.threads))
    assert python.model_dump(mode="json") == inconclusive
    eps = str(python.max_l2)
    run("verify", recorded, "--precision", "float64", "--threshold", eps, cwd=tmp_path)
    out, _ = run("verify", recorded, "--precision", "float64", "--threshold", "1e-12", cwd=tmp_path, code=1)
    assert out.startswith("REJECT\n")
    run("verify", recorded, "--steps", "3:9", cwd=tmp_path, code=4)
    run("verify", recorded, "--require", "exact,initialised", cwd=tmp_path)
    run("verify", recorded, "--require", "model_bound", cwd=tmp_path, code=4)
    final = Trace.open(recorded).final_state().part("param")
    save_file({n: t.clone() for n, t in final.items()}, tmp_path / "m.safetensors")
    run("verify", recorded, "--require", "model_bound", "--model", "m.safetensors", cwd=tmp_path)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--threshold", "-1"], 2, "threshold"),
        (["--steps", "5:3"], 2, "write A:B"),
        (["--steps", "x"], 2, "write A:B"),
        (["--steps", "0:61"], 2, "steps 0 to 59"),
        (["--require", "truth"], 2, "unknown property"),
        (["--task", "lenet-digits"], 3, "softmax-digits"),
        (["--device", "toaster"], 2, "toaster"),
        (["--model", "absent"], 3, "safetensors"),
        (["--precision", "float8"], 2, "float8"),
    ],
)
def test_bad_input_to_verify(recorded: Path, tmp_path: Path, arguments: list[str], code: int, message: str) -> None:
    _, err = run("verify", recorded, *arguments, cwd=tmp_path, code=code)
    assert message in " ".join(err.replace("│", " ").split())


def test_diff_on_the_command_line(recorded: Path, tmp_path: Path) -> None:
    out, _ = run("diff", recorded, recorded, cwd=tmp_path)
    assert "bit for bit" in out
    run("record", "softmax-digits", "--out", "other", "--steps", "60", "--seed", "1", cwd=tmp_path)
    out, _ = run("diff", recorded, "other", "--json", "d.json", cwd=tmp_path, code=1)
    assert "seed: 0 / 1" in out
    assert "initial State" in out
    assert not envelope((tmp_path / "d.json").read_text(), "diff")["same"]
    run("diff", recorded, "absent", cwd=tmp_path, code=3)

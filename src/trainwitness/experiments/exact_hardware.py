"""Golden digests under every setting of this machine, and exact traces from one device verified on another."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from trainwitness.core.environment import current_environment
from trainwitness.core.numerics import Numerics
from trainwitness.experiments.experiment import Setting
from trainwitness.experiments.golden import Golden, available
from trainwitness.tasks.task import Task
from trainwitness.trace.record import record
from trainwitness.verification.verify import verify

TRACES = {
    "lenet-mnist": 50,
    "lenet-digits": 20,
    "fcn-adult": 50,
    "vggmini-cifar10": 2,
    "transformer-imdb": 2,
    "zoo": 5,
}
"""Steps of the traces that go from device to device."""


def run(setting: Setting) -> dict[str, Any]:
    rows: list[dict[str, Any]] = []
    for golden, task in available(setting.data):
        if setting.quick and golden.task not in ("zoo", "softmax-digits", "lenet-digits"):
            continue
        rows += [_golden(setting, golden, task, numerics) for numerics in _settings(setting)]
        if golden.task in TRACES:
            rows += _across(setting, golden, task)
    machine = current_environment()
    notes = [
        f"cpu: {machine.processor}, {machine.cpu_capability}, {machine.blas}"
        + (f"; cuda: {machine.gpu}, CUDA {machine.cuda}" if setting.cuda else ""),
        "golden: the last step's leaf is the one kept in the repository; trace: recorded under the first setting, "
        "every digest compared under the second",
    ]
    return {"rows": rows, "notes": notes, "equal": all(row["equal"] for row in rows)}


def _settings(setting: Setting) -> list[Numerics]:
    if setting.cuda:
        return [Numerics(precision="exact", device=setting.device), Numerics(precision="exact", threads=1)]
    found = [Numerics(precision="exact", threads=threads) for threads in (1, 2)]
    return [*found, Numerics(precision="exact", threads=1, onednn=False, deterministic=True)]


def _golden(setting: Setting, golden: Golden, task: Task, numerics: Numerics) -> dict[str, Any]:
    setting.advance(f"{golden.task}: golden digest, {_words(numerics)}")
    leaf = golden.compute(task, numerics)
    return {
        "task": golden.task, "steps": golden.steps, "what": "golden", "from": None, "to": _words(numerics),
        "equal": leaf == golden.leaf, "leaf": leaf[:16],
    }  # fmt: skip


def _across(setting: Setting, golden: Golden, task: Task) -> list[dict[str, Any]]:
    """One trace per direction between the first two settings."""
    one, other = _settings(setting)[:2]
    rows, steps = [], 5 if setting.quick else TRACES[golden.task]
    for source, target in ((one, other), (other, one)):
        setting.advance(f"{golden.task}: trace, {_words(source)} -> {_words(target)}")
        with tempfile.TemporaryDirectory() as folder:
            record(task, Path(folder) / "t", steps=steps, numerics=source)
            verdict = verify(Path(folder) / "t", task=task, numerics=target, require=("exact", "initialised"))
        rows.append(
            {"task": golden.task, "steps": steps, "what": "trace", "from": _words(source), "to": _words(target)}
            | {"equal": verdict.verdict == "ACCEPT", "leaf": (verdict.step_root or "")[:16]}
        )
    return rows


def _words(numerics: Numerics) -> str:
    if numerics.device != "cpu":
        return numerics.device
    switches = "" if numerics.onednn else ", no oneDNN, deterministic"
    return f"cpu, {numerics.threads} threads{switches}"

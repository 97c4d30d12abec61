"""Recording and verifying on a GPU, and across to the CPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from tests.conftest import tiny_task
from trainwitness import Numerics, Threshold, Trace, build_task, record, verify

pytestmark = pytest.mark.cuda


@pytest.mark.parametrize("precision", ["float32", "float16", "bfloat16", "float64"])
def test_a_gpu_trace_verifies_on_the_gpu_and_on_the_cpu(tmp_path: Path, precision: Any) -> None:
    task = build_task("lenet-digits")
    gpu = Numerics(precision=precision, device="cuda", deterministic=False)
    record(task, tmp_path / "t", steps=20, numerics=gpu)
    assert Trace.open(tmp_path / "t").check().steps == 20
    eps = Threshold(value={"float64": 1e-12, "float32": 1e-5}.get(precision, 1e-3))
    assert verify(tmp_path / "t", threshold=eps).verdict == "ACCEPT"
    on_cpu = verify(tmp_path / "t", threshold=eps, numerics=Numerics(precision=precision, device="cpu"))
    assert on_cpu.verdict == "ACCEPT"
    assert on_cpu.max_l2 > 0


@pytest.mark.parametrize("optimizer", [torch.optim.Adam, torch.optim.SGD])
def test_a_cpu_trace_verifies_on_the_gpu(tmp_path: Path, optimizer: Any) -> None:
    task = tiny_task(optimizer=lambda p, lr: optimizer(p, lr=lr))
    record(task, tmp_path / "t", steps=10)
    verdict = verify(tmp_path / "t", task=task, threshold=Threshold(value=1e-6), numerics=Numerics(device="cuda"))
    assert verdict.verdict == "ACCEPT"


def test_dropout_drawn_on_the_gpu_is_inconclusive_on_the_cpu(tmp_path: Path) -> None:
    def dropping() -> nn.Module:
        return nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.ReLU(), nn.Linear(8, 3))

    task = tiny_task(model=dropping, initialisation="torch")
    record(task, tmp_path / "t", steps=6, numerics=Numerics(device="cuda"))
    assert verify(tmp_path / "t", task=task, threshold=Threshold(value=1e-6)).verdict == "ACCEPT"
    verdict = verify(tmp_path / "t", task=task, threshold=Threshold(value=1e-6), numerics=Numerics(device="cpu"))
    assert verdict.verdict == "INCONCLUSIVE"
    assert "dropout" in verdict.reasons[0]

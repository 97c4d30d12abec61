"""Golden digests: the same leaf under every setting of this machine."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from trainwitness import Batch, Numerics, Stepper, TaskSpec, build_task
from trainwitness.experiments.golden import GOLDEN, Golden, zoo_task
from trainwitness.training.exact import ExactOverflow

EMBEDDED = [golden for golden in GOLDEN if golden.task == "zoo" or golden.task.endswith("-digits")]
REAL = [golden for golden in GOLDEN if golden not in EMBEDDED]
SETTINGS = [
    Numerics(precision="exact", threads=1),
    Numerics(precision="exact", threads=2),
    Numerics(precision="exact", threads=1, onednn=False, deterministic=True),
]


@pytest.mark.parametrize("golden", EMBEDDED, ids=lambda g: g.task)
@pytest.mark.parametrize("numerics", SETTINGS, ids=["one-thread", "two-threads", "no-onednn"])
def test_golden_digests(golden: Golden, numerics: Numerics) -> None:
    assert golden.compute(golden.build(None), numerics) == golden.leaf


@pytest.mark.real_data
@pytest.mark.parametrize("golden", REAL, ids=lambda g: g.task)
def test_golden_digests_on_real_data(golden: Golden, data_folder: Path) -> None:
    task = golden.build(data_folder)
    assert {golden.compute(task, numerics) for numerics in SETTINGS[1:]} == {golden.leaf}


@pytest.mark.cuda
@pytest.mark.parametrize("golden", EMBEDDED, ids=lambda g: g.task)
def test_golden_digests_on_a_gpu(golden: Golden) -> None:
    assert golden.compute(golden.build(None), Numerics(precision="exact", device="cuda")) == golden.leaf


@pytest.mark.parametrize(
    "switches",
    [
        {"ATEN_CPU_CAPABILITY": "default", "MKL_ENABLE_INSTRUCTIONS": "SSE4_2"},
        {"ATEN_CPU_CAPABILITY": "avx2", "MKL_ENABLE_INSTRUCTIONS": "AVX2", "MKL_CBWR": "COMPATIBLE"},
    ],
    ids=["no-vectors", "avx2"],
)
def test_golden_digests_with_other_kernels(switches: dict[str, str]) -> None:
    """Other vector instructions sum in another order; only a new process can choose them."""
    code = (
        "from trainwitness import Numerics\nfrom trainwitness.experiments.golden import GOLDEN\n"
        "for g in GOLDEN:\n"
        "    if g.task in ('zoo', 'lenet-digits'):\n"
        "        assert g.compute(g.build(None), Numerics(precision='exact', threads=1)) == g.leaf, g.task\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, **switches})


def test_float32_differs_between_these_settings() -> None:
    """Otherwise the tests above would show nothing."""
    task = build_task("lenet-digits")
    states = {
        Stepper(task, s.model_copy(update={"precision": "float32"}))(
            Stepper(task).state(), task.schedule.batch(0)
        ).digest()
        for s in SETTINGS
    }
    assert len(states) > 1


def test_the_order_of_a_batch_does_not_matter() -> None:
    task = build_task(TaskSpec(name="lenet-digits", options={"batch_size": 40}))
    batch = task.schedule.batch(0)
    turned = Batch(batch.step, batch.epoch, (batch.rows[0][::-1],))
    stepper = Stepper(task, SETTINGS[0])
    start = stepper.state()
    assert stepper(start, batch).digest() == stepper(start, turned).digest()


def test_the_leaf_binds_sums_outputs_and_state() -> None:
    task = zoo_task()
    stepper = Stepper(task, SETTINGS[0])
    stepper.run(task.schedule.batch(0))
    leaf = stepper.leaf(0)
    assert stepper.leaf(0) == leaf
    assert stepper.leaf(1) != leaf
    witness = stepper.witnesses[0]
    assert witness.outputs is not None
    for tensor in [witness.outputs, *witness.sums.values(), *stepper.live.model_tensors().values()]:
        if tensor.is_floating_point():
            flat = tensor.detach().reshape(-1)
            held = flat[0].item()
            flat[0] = torch.nextafter(flat[0] + 1e-300, torch.tensor(torch.inf, dtype=torch.float64))
            if flat.data_ptr() == tensor.data_ptr():
                assert stepper.leaf(0) != leaf
                flat[0] = held
    assert stepper.leaf(0) == leaf


def test_a_diverging_run_raises() -> None:
    task = build_task(TaskSpec(name="mlp-digits", options={"learning_rate": 1e80}))
    stepper = Stepper(task, SETTINGS[0])
    stepper.run(task.schedule.batch(0))
    with pytest.raises(ExactOverflow, match="too large for exact arithmetic"):
        stepper.run(task.schedule.batch(1))


def test_unsupported_models_are_refused_before_training() -> None:
    task = replace(
        build_task("softmax-digits"), model=lambda: torch.nn.Sequential(torch.nn.SELU(), torch.nn.Linear(1, 1))
    )
    with pytest.raises(Exception, match="0: SELU"):
        Stepper(replace(task, initialisation="torch"), SETTINGS[0])

"""Many steps at once against the step function."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from tests.conftest import tiny_task
from trainwitness import Numerics, ShuffledEpochs, Stepper, Threshold, Trace, build_task, record, verify
from trainwitness.trace.rewrite import rewrite
from trainwitness.training.vectorised import VectorisedSteps

VARIANTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "momentum": {"momentum": 0.9},
    "decay": {"weight_decay": 0.1},
    "both": {"momentum": 0.5, "weight_decay": 0.01},
}


def sgd(**settings: Any) -> Any:
    return lambda parameters, rate: torch.optim.SGD(parameters, lr=rate, **settings)


@pytest.mark.parametrize("settings", VARIANTS.values(), ids=VARIANTS.keys())
def test_many_steps_at_once_are_the_steps_one_by_one(settings: dict[str, Any]) -> None:
    task = tiny_task(
        model=lambda: nn.Sequential(nn.Linear(4, 9), nn.ReLU(), nn.Linear(9, 3)), optimizer=sgd(**settings)
    )
    stepper = Stepper(task, Numerics(precision="float64"))
    assert VectorisedSteps.supports(stepper)
    states, batches = [stepper.state()], [task.schedule.batch(step) for step in range(7)]
    for batch in batches:
        stepper.run(batch)
        states.append(stepper.state())
    at_once = VectorisedSteps(stepper)(states[:-1], batches)
    for computed, expected in zip(at_once, states[1:], strict=True):
        assert computed.tensors.keys() == expected.tensors.keys()
        for name, tensor in expected.tensors.items():
            assert (computed.tensors[name] - tensor).abs().max() < 1e-14


@pytest.mark.parametrize(
    "changes",
    [
        {"optimizer": lambda p, rate: torch.optim.Adam(p, lr=rate)},
        {"optimizer": sgd(momentum=0.9, nesterov=True)},
        {"model": lambda: nn.Sequential(nn.Linear(4, 3), nn.Dropout(0.1)), "initialisation": "torch"},
        {"model": lambda: nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3))},
    ],
)
def test_what_cannot_be_vectorised_is_not(changes: dict[str, Any]) -> None:
    assert not VectorisedSteps.supports(Stepper(tiny_task(**changes)))
    assert not VectorisedSteps.supports(Stepper(build_task("lenet-digits")))
    assert not VectorisedSteps.supports(Stepper(tiny_task(), Numerics(precision="bfloat16")))


@pytest.mark.parametrize("settings", VARIANTS.values(), ids=VARIANTS.keys())
def test_verification_of_small_models_finds_what_one_by_one_finds(tmp_path: Path, settings: dict[str, Any]) -> None:
    task = tiny_task(optimizer=sgd(**settings), schedule=ShuffledEpochs(40, 8, 0.1, seed=0))
    record(task, tmp_path / "t", steps=150, chunk_steps=40)
    eps = Threshold(value=1e-6)
    honest = verify(tmp_path / "t", task=task, threshold=eps)
    assert honest.verdict == "ACCEPT"
    assert [error.step for error in honest.steps] == list(range(150))
    assert honest.properties["exact"].standing in ("unknown", "established")
    assert verify(tmp_path / "t", task=task, threshold=eps, require=("exact",)).max_l2 == 0
    swap = lambda r: r.model_copy(update={"rows": [[0, *r.rows[0][1:]]]}) if r.step in (70, 71) else r  # noqa: E731
    rewrite(Trace.open(tmp_path / "t"), tmp_path / "f", swap)
    forged = verify(tmp_path / "f", task=task, threshold=eps)
    alone = verify(tmp_path / "f", task=task)
    assert forged.verdict == "REJECT"
    assert [e.l2 for e in forged.steps if e.l2 > 1e-6] == [e.l2 for e in alone.steps if e.l2 > 1e-6]

"""Traces of owners who know the verifier's source: each was once accepted, or made it crash."""

from __future__ import annotations

import base64
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from tests.conftest import tiny_task
from tests.verification.forgery import ADAM, EPS, MOMENTUM, NORMED, Forgery, standings
from trainwitness import (
    Batch,
    Dataset,
    Numerics,
    State,
    Stepper,
    TaskSpec,
    Threshold,
    Trace,
    build_task,
    record,
    verify,
)
from trainwitness.core.errors import TraceDamaged, TraceMismatch
from trainwitness.tasks.data.known import KNOWN_ROOTS
from trainwitness.tasks.schedule import ShuffledEpochs
from trainwitness.trace import format as f


def test_second_moments_near_zero_cannot_walk_the_weights(tmp_path: Path) -> None:
    """Adam divides by sqrt(v): small entries of v, invisible in v's norm, move the weights as far as one likes."""
    task = build_task(TaskSpec(name="mlp-digits", options={"optimizer": "adam", "learning_rate": 0.01}))
    record(task, tmp_path / "t", steps=12)
    forged, at = Forgery(tmp_path / "t"), 10
    stepper = Stepper(task, Trace.open(tmp_path / "t").manifest.numerics)
    before, after = forged.states[at].tensors, forged.states[at + 1].tensors
    for name in [n for n in before if n.endswith("/exp_avg_sq")]:
        v, grown = before[name].double(), (after[name].double() - 0.999 * before[name].double()).clamp(min=0)
        small = (v < v.norm() * 1e-5) & (grown > v * 1e-3) & (grown > 1e-20)
        forged.set(at, name, torch.where(small, -grown / 0.999 * 0.99, v).float())
    honest = forged.states[at + 1]
    for step in range(at, 12):
        forged.states[step + 1] = stepper(forged.states[step], task.schedule.batch(step))
    moved = max(
        float((tensor - honest.tensors[n]).abs().max())
        for n, tensor in forged.states[at + 1].tensors.items()
        if n.startswith("param/")
    )
    assert moved > 0.05  # five times what Adam can move a weight in one step: the walk works
    verdict = verify(forged.write(tmp_path / "f"), threshold=EPS)
    assert verdict.steps[at - 1].optimizer < 1e-3  # too little to be seen in the State it starts from
    assert verdict.verdict == "REJECT"
    assert verdict.steps[at].l2 > 0.1


class Masked(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 3)
        self.register_buffer("mask", torch.triu(torch.full((4, 4), -torch.inf), 1))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.linear(inputs @ torch.softmax(self.mask, -1))


@pytest.mark.parametrize("value", [50.0, torch.nan, torch.inf])
def test_an_infinite_entry_does_not_hide_the_finite_ones(tmp_path: Path, value: float) -> None:
    task = tiny_task(model=Masked, initialisation="torch")
    record(task, tmp_path / "t", steps=5)
    assert verify(tmp_path / "t", task=task).verdict == "ACCEPT"
    forged, stepper = Forgery(tmp_path / "t"), Stepper(task)
    mask = forged.states[1].tensors["buffer/mask"].clone()
    mask[1, 0] = value
    forged.set(1, "buffer/mask", mask)
    for step in range(1, 5):
        forged.states[step + 1] = stepper(forged.states[step], task.schedule.batch(step))
    forged.write(tmp_path / "f")
    assert verify(tmp_path / "f", task=task, threshold=EPS).verdict == "REJECT"
    assert verify(tmp_path / "f", task=task).verdict != "ACCEPT"


@pytest.mark.parametrize("require", [(), ("data_matches",), ("scheduled",)])
def test_reproduction_is_always_required(honest: Any, tmp_path: Path, require: Any) -> None:
    task, path = honest()
    forged = Forgery(path)
    forged.set(3, "param/weight", forged.states[3].tensors["param/weight"] + 5)
    assert verify(forged.write(tmp_path / "f"), task=task, require=require).verdict == "INCONCLUSIVE"


def free() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 9), nn.ReLU(), nn.Linear(9, 3))


def frozen() -> nn.Module:
    model = free()
    model[0].requires_grad_(False)  # type: ignore[index]
    return model


def test_many_at_once_trains_what_the_step_function_trains(tmp_path: Path) -> None:
    """The task trains the last layer only; the owner trained both."""
    record(tiny_task(model=free, initialisation="torch"), tmp_path / "t", steps=20)
    only_last = {"optimizer": lambda p, lr: torch.optim.SGD(list(p)[2:], lr=lr)}
    for changes in ({"model": frozen}, {"model": free, **only_last}):
        task = tiny_task(initialisation="torch", **changes)
        assert verify(tmp_path / "t", task=task, threshold=EPS).verdict == "REJECT"


class Dropping(nn.Sequential):
    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return nn.functional.dropout(super().forward(inputs), 0.2, self.training)


def item_loss(output: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return nn.functional.cross_entropy(output, labels) if output.max().item() < 1e9 else output.sum()


@pytest.mark.parametrize(
    "changes",
    [
        {"model": lambda: Dropping(nn.Linear(4, 3)), "initialisation": "torch"},
        {"loss": item_loss},
        MOMENTUM,
        {
            "dataset": Dataset("reg", np.ones((40, 4), np.float32), np.ones((40, 3), np.float32)),
            "loss": nn.functional.mse_loss,
        },
    ],
    ids=["hidden-dropout", "item-in-loss", "momentum", "two-dimensional-labels"],
)
def test_honest_tasks_that_cannot_be_vectorised_or_can(tmp_path: Path, changes: dict[str, Any]) -> None:
    task = tiny_task(**changes)
    record(task, tmp_path / "t", steps=70)
    assert verify(tmp_path / "t", task=task, threshold=EPS).verdict == "ACCEPT"


def test_one_bad_step_among_many_computed_together_is_the_only_one_reported(tmp_path: Path) -> None:
    task = tiny_task(**MOMENTUM)
    record(task, tmp_path / "t", steps=100)
    forged = Forgery(tmp_path / "t")
    forged.records[70] = forged.records[70].model_copy(update={"rows": [[0, 1, 2, 3, 4, 5, 6, 7]]})
    verdict = verify(forged.write(tmp_path / "f"), task=task, threshold=EPS)
    assert [error.step for error in verdict.steps if error.l2 > 1e-6] == [70]
    assert [error.step for error in verdict.steps] == list(range(100))


@pytest.mark.parametrize("key", ["initialisation", "order"])
def test_a_trace_that_names_its_task_cannot_leave_its_beginning_or_order_open(tmp_path: Path, key: str) -> None:
    record(build_task("softmax-digits"), tmp_path / "t", steps=3)
    forged = Forgery(tmp_path / "t")
    stepper = Stepper(build_task("softmax-digits"))
    if key == "initialisation":
        forged.set(0, "param/1.weight", forged.states[0].tensors["param/1.weight"] + 1)
    for step in range(3):
        rows = [0] * 100 if key == "order" else list(stepper.task.schedule.batch(step).rows[0])
        forged.records[step] = forged.records[step].model_copy(update={"rows": [rows]})
        forged.states[step + 1] = stepper(forged.states[step], Batch(step, 0, (tuple(rows),)))
    stated = {"initialisation": "unstated"} if key == "initialisation" else {"order": "loader"}
    forged.manifest = forged.manifest.model_copy(update=stated)
    verdict = verify(forged.write(tmp_path / "f"))
    assert verdict.verdict == "REJECT"
    assert standings(verdict)["initialised" if key == "initialisation" else "scheduled"] == "refuted"


def test_the_task_says_how_exactly_it_is_initialised(honest: Any, tmp_path: Path) -> None:
    task, path = honest()
    forged, stepper = Forgery(path), Stepper(task)
    forged.manifest = forged.manifest.model_copy(update={"initialisation": "torch"})
    weight = forged.states[0].tensors["param/weight"]
    forged.set(0, "param/weight", torch.nextafter(weight, torch.full_like(weight, 9.0)))
    for step in range(8):
        forged.states[step + 1] = stepper(forged.states[step], task.schedule.batch(step))
    assert standings(verify(forged.write(tmp_path / "f"), task=task))["initialised"] == "refuted"


def test_a_claimed_device_excuses_errors_and_nothing_else(honest: Any, tmp_path: Path) -> None:
    task, path = honest(**NORMED)
    for device in ("cuda", "potato"):
        forged = Forgery(path)
        numerics = forged.manifest.numerics.model_copy(update={"device": device})
        forged.manifest = forged.manifest.model_copy(update={"numerics": numerics})
        honest_elsewhere = verify(forged.write(tmp_path / device), task=task, numerics=Numerics(), threshold=EPS)
        assert honest_elsewhere.verdict == "INCONCLUSIVE"
        assert "dropout" in honest_elsewhere.reasons[0]
        forged.records = [r.model_copy(update={"groups": [r.groups[0] | {"lr": 9.0}]}) for r in forged.records]
        verdict = verify(forged.write(tmp_path / f"{device}2"), task=task, numerics=Numerics(), threshold=EPS)
        assert verdict.verdict == "REJECT"
        assert "learning rate" in verdict.reasons[0]


def test_a_private_data_set_is_not_a_damaged_copy_of_mnist(honest: Any, tmp_path: Path) -> None:
    task, path = honest()
    forged = Forgery(path)
    data = forged.manifest.data.model_copy(update={"root": KNOWN_ROOTS["mnist"]})
    forged.manifest = forged.manifest.model_copy(update={"data": data})
    assert standings(verify(forged.write(tmp_path / "f"), task=task))["data_matches"] == "refuted"


@pytest.mark.parametrize("rate", [0.0, 0.01])
def test_one_channel_of_batch_norm_cannot_be_chosen(tmp_path: Path, rate: float) -> None:
    task = tiny_task(**NORMED, schedule=ShuffledEpochs(40, 8, rate, seed=0))
    record(task, tmp_path / "t", steps=4)
    forged = Forgery(tmp_path / "t")
    variance = forged.states[4].tensors["buffer/1.running_var"].clone()
    variance[0] *= 1.01
    forged.set(4, "buffer/1.running_var", variance)
    forged.write(tmp_path / "f")
    for eps in (0.0, 1e-5):
        assert verify(tmp_path / "f", task=task, threshold=Threshold(value=eps)).verdict == "REJECT"


@pytest.mark.parametrize("what", ["scaler", "dtype", "integer step", "minus zero"])
def test_bit_for_bit_means_every_bit(honest: Any, tmp_path: Path, what: str) -> None:
    task, path = honest(**ADAM)
    forged = Forgery(path)
    last = forged.states[8].tensors
    if what == "scaler":
        forged.set(8, "scaler/secret", torch.arange(5.0))
    elif what == "dtype":
        forged.set(8, "param/weight", last["param/weight"].double())
    elif what == "integer step":
        forged.set(8, "optim/weight/step", last["optim/weight/step"].long())
    else:
        task = tiny_task(model=lambda: nn.Linear(4, 3), schedule=ShuffledEpochs(40, 8, 0.0, seed=0))
        zero = {"model": _zero_linear, "initialisation": "torch", "schedule": task.schedule}
        task = tiny_task(**zero)
        record(task, tmp_path / "z", steps=8)
        forged = Forgery(tmp_path / "z")
        forged.set(8, "param/weight", -torch.zeros(3, 4))
    verdict = verify(forged.write(tmp_path / "f"), task=task)
    assert verdict.verdict != "ACCEPT"
    assert standings(verdict)["exact"] == "refuted"


def _zero_linear() -> nn.Module:
    model = nn.Linear(4, 3)
    nn.init.zeros_(model.weight)
    return model


def without(state: State, name: str) -> State:
    return State({n: t for n, t in state.tensors.items() if n != name})


@pytest.mark.parametrize(
    ("changes", "name", "tensor"),
    [
        (ADAM, "optim/weight/exp_avg_sq", None),
        (MOMENTUM, "optim/weight/momentum_buffer", torch.zeros(7)),
        (MOMENTUM, "optim/weight/x:int", torch.tensor(torch.inf, dtype=torch.float64)),
        ({}, "param/bias", None),
        ({}, "param/bias", torch.zeros(3, dtype=torch.int64)),
        ({}, "param/bias", torch.full((3,), 1e200, dtype=torch.float64)),
    ],
)
@pytest.mark.parametrize("one_by_one", [False, True])
def test_malformed_states_are_refuted_and_the_rest_goes_on(
    honest: Any, tmp_path: Path, changes: Any, name: str, tensor: torch.Tensor | None, one_by_one: bool
) -> None:
    task, path = honest(**changes)
    forged = Forgery(path)
    if tensor is None:
        forged.states[3] = without(forged.states[3], name)
    else:
        forged.set(3, name, tensor)
    verdict = verify(forged.write(tmp_path / "f"), task=task, threshold=EPS, one_by_one=one_by_one)
    assert verdict.verdict == "REJECT"
    assert len(verdict.steps) == 8
    assert next(e.step for e in verdict.steps if e.l2 > 1e-6 or e.problems) == 2
    assert all(error.l2 < 1e-6 for error in verdict.steps[4:])


def test_batches_that_the_model_refuses_are_refuted(honest: Any, tmp_path: Path) -> None:
    task, path = honest(**NORMED)
    forged = Forgery(path)
    forged.records[2] = forged.records[2].model_copy(update={"rows": [[3]]})  # batch norm wants two
    verdict = verify(forged.write(tmp_path / "f"), task=task, threshold=EPS)
    assert verdict.verdict == "REJECT"
    assert "cannot be computed" in verdict.steps[2].problems[0]
    forged.records[2] = forged.records[2].model_copy(update={"rows": [[3] * 41]})
    assert "more than the data set has" in verify(
        forged.write(tmp_path / "long"), task=task, threshold=EPS
    ).steps[2].problems[0]  # fmt: skip


def test_a_carried_label_without_bounds_is_refuted(tmp_path: Path) -> None:
    data = tiny_task().dataset
    task = tiny_task(dataset=Dataset("open", data.inputs, data.labels, prepare=data.prepare))
    record(task, tmp_path / "t", steps=6)
    forged = Forgery(tmp_path / "t")
    row = Dataset("x", data.inputs, np.full(40, 10**6)).row(0)
    carried = {"1": base64.b64encode(row).decode()}
    forged.records[2] = forged.records[2].model_copy(update={"carried": carried})
    forged.write(tmp_path / "f")
    for eps in (None, EPS):
        verdict = verify(tmp_path / "f", task=task, threshold=eps)
        assert verdict.verdict == "REJECT"
        assert verdict.steps[2].problems


def test_a_trace_longer_than_its_schedule(honest: Any) -> None:
    class Finite(ShuffledEpochs):
        def batch(self, step: int) -> Batch:
            return [super(Finite, self).batch(k) for k in range(5)][step]

    _, path = honest()
    verdict = verify(path, task=tiny_task(schedule=Finite(40, 8, 0.1, seed=0)), threshold=EPS)
    assert verdict.verdict == "REJECT"
    assert "no such step" in verdict.properties["scheduled"].why


def test_a_trace_cannot_ask_for_a_model_that_does_not_fit(tmp_path: Path) -> None:
    record(build_task("mlp-digits"), tmp_path / "t", steps=2)
    forged = Forgery(tmp_path / "t")
    spec = TaskSpec(name="mlp-digits", options={"hidden": [10**6, 10**6]})
    forged.manifest = forged.manifest.model_copy(update={"task": spec})
    with pytest.raises(TraceMismatch, match="parameters"):
        verify(forged.write(tmp_path / "f"))


def test_a_seal_that_lies_is_refused(honest: Any, tmp_path: Path) -> None:
    task, path = honest()
    seal, _ = f.load(f.Seal, (path / f.SEAL).read_bytes(), f.SEAL)
    for number, lie in enumerate(({"final_state": "0" * 64}, {"data_root": "f" * 64}, {"step_root": "1" * 64})):
        copy = tmp_path / str(number)
        shutil.copytree(path, copy)
        (copy / f.SEAL).write_bytes(f.dump(seal.model_copy(update=lie))[0])
        with pytest.raises(TraceDamaged, match=f.SEAL):
            verify(copy, task=task, threshold=EPS)


def test_a_model_file_without_its_buffers_is_not_the_model(honest: Any, tmp_path: Path) -> None:
    from safetensors.torch import save_file

    task, path = honest(**NORMED)
    final = Trace.open(path).final_state()
    save_file({n: t.clone() for n, t in final.part("param").items()}, tmp_path / "m.safetensors")
    verdict = verify(path, task=task, model=tmp_path / "m.safetensors")
    assert (verdict.verdict, standings(verdict)["model_bound"]) == ("REJECT", "refuted")


class Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(1.5))
        self.linear = nn.Linear(4, 3)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.linear(inputs) * self.scale


@pytest.mark.parametrize("changes", [MOMENTUM, ADAM], ids=["momentum", "adam"])
def test_a_scalar_parameter_is_no_counter(tmp_path: Path, changes: dict[str, Any]) -> None:
    task = tiny_task(model=Scaled, initialisation="torch", **changes)
    record(task, tmp_path / "t", steps=8)
    assert verify(tmp_path / "t", task=task).verdict == "ACCEPT"
    verdict = verify(
        tmp_path / "t", task=task, threshold=Threshold(value=1e-5), numerics=Numerics(precision="float64")
    )
    assert verdict.verdict == "ACCEPT"


def test_adamw_is_not_adam(tmp_path: Path) -> None:
    decay = {"optimizer": lambda p, lr: torch.optim.Adam(p, lr=lr, weight_decay=0.1)}
    decoupled = {"optimizer": lambda p, lr: torch.optim.AdamW(p, lr=lr, weight_decay=0.1)}
    record(tiny_task(**decay), tmp_path / "t", steps=5)
    verdict = verify(tmp_path / "t", task=tiny_task(**decoupled), threshold=EPS)
    assert "decoupled_weight_decay" in verdict.properties["scheduled"].why

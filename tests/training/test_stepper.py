"""The step function against independent computations."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from tests.conftest import tiny_task
from trainwitness import Batch, Numerics, ShuffledEpochs, Stepper, Task
from trainwitness.core.errors import NotCapturable, TraceMismatch, UsageError
from trainwitness.training.live import Live

OPTIMIZERS = {
    "SGD": lambda p, lr: torch.optim.SGD(p, lr=lr, momentum=0.9, nesterov=True),
    "Adam": lambda p, lr: torch.optim.Adam(p, lr=lr, amsgrad=True),
    "AdamW": lambda p, lr: torch.optim.AdamW(p, lr=lr),
    "NAdam": lambda p, lr: torch.optim.NAdam(p, lr=lr),
    "RAdam": lambda p, lr: torch.optim.RAdam(p, lr=lr),
    "Adamax": lambda p, lr: torch.optim.Adamax(p, lr=lr),
    "Adagrad": lambda p, lr: torch.optim.Adagrad(p, lr=lr),
    "Adadelta": lambda p, lr: torch.optim.Adadelta(p, lr=lr),
    "RMSprop": lambda p, lr: torch.optim.RMSprop(p, lr=lr, momentum=0.5, centered=True),
    "Rprop": lambda p, lr: torch.optim.Rprop(p, lr=lr),
    "ASGD": lambda p, lr: torch.optim.ASGD(p, lr=lr),
    "Adafactor": lambda p, lr: torch.optim.Adafactor(p, lr=lr),
}


def test_softmax_regression_step_equals_the_formula_in_numpy() -> None:
    task = tiny_task()
    stepper = Stepper(task, Numerics(precision="float64"))
    before, batch = stepper.state(), task.schedule.batch(0)
    after = stepper(before, batch)
    weight, bias = (before.tensors[f"param/{n}"].numpy() for n in ("weight", "bias"))
    rows = list(batch.rows[0])
    x, y = task.dataset.inputs[rows] / 255, task.dataset.labels[rows]
    z = x @ weight.T + bias
    error = np.exp(z) / np.exp(z).sum(1, keepdims=True) - np.eye(3)[y]
    assert np.abs(after.tensors["param/weight"].numpy() - (weight - 0.1 * error.T @ x / 8)).max() < 1e-15
    assert np.abs(after.tensors["param/bias"].numpy() - (bias - 0.1 * error.mean(0))).max() < 1e-15


def dropout_and_norm() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.ReLU(), nn.Linear(8, 3))


@pytest.mark.parametrize("optimizer", OPTIMIZERS.values(), ids=OPTIMIZERS.keys())
def test_g_is_pure_for_every_optimiser(optimizer: object) -> None:
    """From a stored State, with a fresh Stepper or a used one, a step gives the bits that training gave."""
    task = tiny_task(model=dropout_and_norm, optimizer=optimizer)
    trained = Stepper(task)
    states = [trained.state()]
    for step in range(4):
        trained.run(task.schedule.batch(step))
        states.append(trained.state())
    fresh = Stepper(task)
    for step in (3, 0, 2, 1):  # any order
        again = fresh(states[step], task.schedule.batch(step))
        assert again.digest() == states[step + 1].digest(), f"step {step}"


def test_lbfgs_state_with_lists_and_none_survives() -> None:
    model = nn.Linear(4, 3)
    x, y = torch.randn(20, 4), torch.randint(0, 3, (20,))
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=3, history_size=4)
    live = Live(model, optimizer)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        return loss

    optimizer.step(closure)
    state = live.state()
    assert any(name.endswith(":list") for name in state.tensors)
    optimizer.step(closure)
    after = live.state()
    live.load(state)
    assert live.state().digest() == state.digest()
    optimizer.step(closure)
    assert live.state().digest() == after.digest()


def test_accumulated_micro_batches_give_the_whole_batch_mean() -> None:
    whole, cut = (
        Stepper(tiny_task(schedule=ShuffledEpochs(40, 8, 0.1, 0, accumulate=k)), Numerics(precision="float64"))
        for k in (1, 4)
    )
    for stepper in (whole, cut):
        stepper.run(stepper.task.schedule.batch(0))
    difference = whole.state().tensors["param/weight"] - cut.state().tensors["param/weight"]
    assert 0 <= difference.abs().max() < 1e-15


def test_uneven_micro_batches_weigh_every_example_alike() -> None:
    task = tiny_task()
    states = []
    for rows in (((1, 2, 3, 4, 5),), ((1,), (2, 3, 4), (5,))):
        stepper = Stepper(task, Numerics(precision="float64"))
        stepper.run(Batch(step=0, epoch=0, rows=rows))
        states.append(stepper.state().tensors["param/weight"])
    assert (states[0] - states[1]).abs().max() < 1e-15


def test_carried_rows_are_used_in_their_own_micro_batch() -> None:
    task = tiny_task()
    carried = Batch(0, 0, ((1, 2), (3, 4)), {2: task.dataset.row(9)})
    plain = Batch(0, 0, ((1, 2), (9, 4)))
    results = [Stepper(task)(Stepper(task).state(), batch).digest() for batch in (carried, plain)]
    assert results[0] == results[1]


@pytest.mark.parametrize(("precision", "scaled"), [("float16", True), ("bfloat16", False)])
def test_mixed_precision_keeps_float32_parameters(precision: str, scaled: bool) -> None:
    task = tiny_task()
    stepper = Stepper(task, Numerics(precision=precision))  # type: ignore[arg-type]
    exact = Stepper(task, Numerics(precision="float64"))
    for one in (stepper, exact):
        one.run(task.schedule.batch(0))
    state = stepper.state().tensors
    assert state["param/weight"].dtype == torch.float32
    assert ("scaler/scale" in state) == scaled
    error = (state["param/weight"] - exact.state().tensors["param/weight"]).abs().max()
    assert 1e-8 < error < 1e-3  # really lower precision, and still the same step


def test_float16_overflow_skips_the_step_and_halves_the_scale() -> None:
    task = tiny_task(loss=lambda out, y: nn.functional.cross_entropy(out, y) * 1e30)
    stepper = Stepper(task, Numerics(precision="float16"))
    before = stepper.state()
    stepper.run(task.schedule.batch(0))
    after = stepper.state()
    assert torch.equal(before.tensors["param/weight"], after.tensors["param/weight"])
    assert after.tensors["scaler/scale"] == before.tensors["scaler/scale"] / 2


def test_kernel_switches_are_put_back() -> None:
    threads = torch.get_num_threads()
    stepper = Stepper(tiny_task(), Numerics(threads=1, deterministic=True, onednn=False))
    stepper.run(stepper.task.schedule.batch(0))
    assert torch.get_num_threads() == threads
    assert not torch.are_deterministic_algorithms_enabled()
    assert torch._C._get_mkldnn_enabled()


def test_an_absent_device_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="cannot be used here"):
        Stepper(tiny_task(), Numerics(device="cuda:7" if torch.cuda.is_available() else "cuda"))
    with pytest.raises(UsageError, match="toaster"):
        Stepper(tiny_task(), Numerics(device="toaster"))


def test_a_state_of_another_model_is_refused_by_name() -> None:
    other: Task = tiny_task(model=lambda: nn.Linear(4, 2))
    with pytest.raises(TraceMismatch, match="param/bias"):
        Stepper(tiny_task()).load(Stepper(other).state())


def test_a_parameter_outside_the_model_is_refused() -> None:
    model, other = nn.Linear(2, 2), nn.Linear(2, 2)
    with pytest.raises(NotCapturable, match="not in the model"):
        Live(model, torch.optim.SGD([*model.parameters(), *other.parameters()], lr=0.1))


def test_loading_an_empty_optimiser_state_forgets_momentum() -> None:
    task = tiny_task(optimizer=lambda p, lr: torch.optim.SGD(p, lr=lr, momentum=0.9))
    stepper = Stepper(task)
    initial = stepper.state()
    stepper.run(task.schedule.batch(0))
    stepper.load(initial)
    assert stepper.state().digest() == initial.digest()

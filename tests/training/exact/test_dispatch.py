"""No operation off the allowed list runs in an exact step, and every sum it makes is exact."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from tests.training.exact.allowed import Watch, bits
from trainwitness import Numerics, Stepper, TaskSpec, build_task, exact
from trainwitness.experiments.golden import zoo_task
from trainwitness.tasks.task import Task


def watched(task: Task, precision: str = "exact") -> Watch:
    stepper = Stepper(task, Numerics(precision=precision, threads=1))  # type: ignore[arg-type]
    stepper.run(task.schedule.batch(0))
    with Watch() as watch:
        stepper.run(task.schedule.batch(1))
    return watch


@pytest.mark.parametrize(
    "task",
    [
        zoo_task,
        lambda: build_task(TaskSpec(name="lenet-digits", options={"batch_size": 20, "accumulate": 2})),
        lambda: build_task(TaskSpec(name="mlp-digits", options={"optimizer": "adam", "weight_decay": 0.1})),
        lambda: build_task(TaskSpec(name="softmax-digits", options={"momentum": 0.9, "batch_size": 1000})),
    ],
    ids=["zoo", "lenet", "mlp", "softmax"],
)
def test_only_allowed_operations_run(task: object) -> None:
    watch = watched(task())  # type: ignore[operator]
    assert {"mm", "sum"} & watch.seen
    prepared = ["a division by a number"]  # pixels / 255, on the CPU before anything else
    assert [wrong for wrong in watch.wrong if wrong not in prepared] == []
    assert watch.wrong.count(prepared[0]) <= 2


def test_the_watch_notices_ordinary_arithmetic() -> None:
    wrong = " ".join(watched(build_task("lenet-digits"), "float64").wrong)
    for text in ("addmm is on no list", "convolution is on no list", "needs", "with alpha"):
        assert text in wrong


def test_bits_are_counted_from_the_lowest_one() -> None:
    assert bits(torch.tensor([0.0, 8.0, 0.5]), 0) == 4
    assert bits(torch.tensor([0.0, 0.0]), 0) == 0
    assert bits(torch.tensor([5.0]), 0) == 3
    assert bits(torch.tensor([1 / 3], dtype=torch.float64), 0) == 53


def test_losses_and_attention_stay_on_the_list() -> None:
    x = torch.randn(30, 10, dtype=torch.float64, requires_grad=True)
    with Watch() as watch:
        with exact.arithmetic():
            loss = F.binary_cross_entropy_with_logits(x.tanh(), torch.ones(30, 10, dtype=torch.float64))
        loss.backward()
    assert watch.wrong == []

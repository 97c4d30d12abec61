"""The forgeability audit keeps its three questions apart, and its answers are true."""

from __future__ import annotations

import json

import numpy as np
import torch
from torch import nn

from tests.conftest import tiny_task
from tests.forging.test_attacks import problem_of
from trainwitness import ShuffledEpochs, TaskSpec, Threshold, build_task
from trainwitness.audit.forgeability import Forgeability, forgeability
from trainwitness.audit.freedom import freedom
from trainwitness.verification.step_noise import step_noise


def standings(found: Forgeability) -> list[str]:
    return [answer.standing for answer in found.answers]


def test_a_narrow_first_layer_is_shown_to_be_forgeable() -> None:
    task = build_task(TaskSpec(name="softmax-digits", options={"batch_size": 60}))
    problem = problem_of(task, step=3, positions=range(60), pool_size=300)
    settings = {"lattice": {"exponents": (9,), "nudges": 0, "setting": 100}}
    found = forgeability(problem, threshold=Threshold(value=1e-6), settings=settings)
    assert standings(found) == ["shown", "shown", "not found"]
    assert found.shown
    assert found.freedom.null_space == (784 - 9) * (60 - 9)
    assert any("commit to the data" in line for line in found.advice)
    assert len(found.examples) == 16
    assert all(not np.array_equal(original, forged) for _, original, forged in found.examples)
    text = json.dumps(found.to_json(), allow_nan=False)
    assert "unforgeable" not in text
    assert bytes.fromhex(found.to_json()["examples"][0]["original"]) == found.examples[0][1].tobytes()


def test_a_convolution_leaves_only_a_count() -> None:
    task = build_task(TaskSpec(name="lenet-digits", options={"batch_size": 80}))
    free = freedom(problem_of(task, step=1, positions=range(80), pool_size=100))
    assert free.rank_weights == 784
    assert free.null_space == 0
    assert free.fibre == 80 * 784 - 61_706


def test_one_example_is_excluded_by_proposition_1() -> None:
    task = tiny_task(schedule=ShuffledEpochs(40, 1, 0.1, seed=0))
    found = forgeability(problem_of(task, positions=[0]), attacks=("null-space", "swap-search"))
    assert standings(found) == ["excluded"] * 3
    assert not found.shown
    assert "Proposition 1" in found.answers[0].why
    without = tiny_task(
        schedule=ShuffledEpochs(40, 1, 0.1, seed=0), model=lambda: nn.Linear(4, 3, bias=False), initialisation="torch"
    )
    assert "excluded" not in standings(forgeability(problem_of(without, positions=[0]), attacks=("swap-search",)))


def test_ranks_are_those_of_the_jacobian_by_differences() -> None:
    problem = problem_of(tiny_task(), positions=range(8))
    free = freedom(problem)
    weight, bias = (problem.before.tensors[f"param/{n}"].double() for n in ("weight", "bias"))
    inputs, labels = problem.stepper.task.dataset.fetch(problem.rows)

    def gradient(flat: torch.Tensor) -> torch.Tensor:
        x = flat.view(8, 4)
        error = torch.softmax(x @ weight.T + bias, 1) - nn.functional.one_hot(labels, 3)
        return torch.cat([(error.T @ x).flatten(), error.sum(0)]) / 8

    x, step = (inputs.double() / 255).flatten(), 1e-5
    columns = [(gradient(x + step * e) - gradient(x - step * e)) / (2 * step) for e in torch.eye(32).double()]
    assert free.rank_jacobian == int(torch.linalg.matrix_rank(torch.stack(columns), rtol=1e-6))
    assert free.fibre == 32 - free.rank_jacobian


def test_noise_of_a_step_is_measured_source_by_source() -> None:
    problem = problem_of(build_task("softmax-digits"), positions=range(100), pool_size=200)
    arguments = (problem.stepper.task, problem.stepper.numerics, problem.before, problem.after, problem.batch)
    noise = step_noise(*arguments)
    assert noise["repetition"] == 0
    assert 0 < noise["order"] < 1e-6
    assert 0 < noise["rounding"] < 1e-6

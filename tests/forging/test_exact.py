"""Exact forging in real numbers and by labels, against independent computations."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from tests.conftest import tiny_task
from tests.forging.test_attacks import problem_of
from trainwitness import Dataset, Numerics, Stepper, Task, TaskSpec, build_task
from trainwitness.core.errors import UsageError
from trainwitness.core.seeds import derive
from trainwitness.forging.error_matrix import error_matrix, solve_inputs
from trainwitness.forging.forge import attack
from trainwitness.forging.problem import make_problem
from trainwitness.forging.relabel import exchanges, independent
from trainwitness.forging.relax import null_projection
from trainwitness.training.first_layer import first_layer


def test_the_projection_is_the_null_space_of_the_papers_kronecker_matrix() -> None:
    rng = np.random.default_rng(0)
    weights, errors = rng.normal(size=(5, 2)), rng.normal(size=(4, 2))
    kronecker = np.vstack([np.kron(errors.T, np.eye(5)), np.kron(np.eye(4), weights.T)])
    space = np.linalg.svd(kronecker)[2][np.linalg.matrix_rank(kronecker) :]
    wanted = rng.normal(size=(4, 5))
    by_paper = (space.T @ (space @ wanted.ravel())).reshape(4, 5)  # vec of P stacks its columns, the examples
    assert np.allclose(null_projection(weights, errors)(wanted), by_paper)
    assert len(space) == (5 - 2) * (4 - 2)
    assert 5 * 4 <= 2 * (5 + 4) + 2  # near the paper's bound, which is not needed


@pytest.mark.parametrize("activation", [nn.ReLU, nn.Tanh, nn.Softplus])
@pytest.mark.parametrize("depth", [1, 3])
def test_null_space_in_any_depth(activation: type[nn.Module], depth: int) -> None:
    def model() -> nn.Module:
        layers: list[nn.Module] = [nn.Flatten(), nn.Linear(784, 8), activation()]
        for _ in range(depth - 1):
            layers += [nn.Linear(8, 8), activation()]
        return nn.Sequential(*layers, nn.Linear(8, 10))

    base = build_task(TaskSpec(name="mlp-digits", options={"batch_size": 32}))
    task = replace(base, model=model, initialisation="torch")
    forgery = attack(problem_of(task, positions=range(32), pool_size=100), "null-space")
    assert forgery.residual is not None
    assert forgery.residual < 1e-12
    assert forgery.error < 3e-7
    assert "outside the domain" in forgery.problems[0]


def test_null_space_in_float64_is_below_1e_12() -> None:
    task = build_task(TaskSpec(name="mlp-digits", options={"batch_size": 50, "hidden": 20}))
    stepper = Stepper(task, Numerics(precision="float64"))
    before, batch = stepper.state(), task.schedule.batch(0)
    problem = make_problem(stepper, before, stepper(before, batch), batch, positions=range(40), pool_size=100)
    forgery = attack(problem, "null-space")
    assert forgery.error < 1e-12


def test_labels_stay_where_the_pool_has_run_out_of_a_class() -> None:
    task = build_task(TaskSpec(name="softmax-digits", options={"batch_size": 40}))
    problem = problem_of(task, positions=range(40), pool_size=40)
    labels = task.dataset.labels
    assert sorted(labels[list(problem.pool)]) != sorted(labels[problem.rows])
    forgery = attack(problem, "null-space")
    assert forgery.residual is not None
    assert forgery.residual < 1e-12


def test_conditions_are_ranks_and_not_the_papers_inequality() -> None:
    """b = 25 and d_1 = 20 with 784 inputs: 784 * 25 > 20 * 809 holds, at b = 20 and rank 19 it does not."""
    task = build_task(TaskSpec(name="softmax-digits", options={"batch_size": 10}))
    assert not 784 * 10 > 10 * (784 + 10)
    assert attack(problem_of(task, positions=range(10), pool_size=50), "null-space").error < 1e-6  # rank D is 9
    with pytest.raises(UsageError, match="9 examples with 9 independent errors"):
        attack(problem_of(task, positions=range(9), pool_size=50), "null-space")


def test_large_batches_take_seconds() -> None:
    rng = np.random.default_rng(0)
    change = null_projection(rng.normal(size=(3072, 10)), rng.normal(size=(2000, 10)))(rng.normal(size=(2000, 3072)))
    assert np.abs(change).max() > 1


@pytest.mark.parametrize("places", [range(30), range(5, 25)])
def test_error_matrices_give_other_labels_and_the_same_gradient(places: range) -> None:
    task = build_task(TaskSpec(name="softmax-digits", options={"batch_size": 30}))
    forgery = attack(problem_of(task, positions=places, pool_size=100), "error-matrix")
    assert forgery.residual is not None
    assert forgery.residual < 1e-12
    assert forgery.error < 1e-6
    assert "labels are real" in forgery.problems[0]


def test_drawn_errors_keep_the_rules_of_error_matrices() -> None:
    rng = np.random.default_rng(1)
    errors = rng.normal(size=(12, 4))
    errors -= errors.mean(1, keepdims=True)
    drawn = error_matrix(errors, derive(0, "x"), biased=True)
    assert np.allclose(drawn.sum(1), 0)
    assert np.allclose(drawn.sum(0), errors.sum(0))
    inputs = rng.normal(size=(12, 7))
    found = solve_inputs(rng.normal(size=(12, 7)), drawn, inputs.T @ errors)
    assert np.allclose(found.T @ drawn, inputs.T @ errors)
    # The rank alone is not enough: errors of the same rank with another row space.
    narrow = np.zeros((12, 4))
    narrow[:, :2] = rng.normal(size=(12, 1)) * [1, -1]
    with pytest.raises(UsageError, match="row space"):
        solve_inputs(inputs, narrow, inputs.T @ (rng.normal(size=(12, 1)) * np.array([[0, 0, 1.0, -1.0]])))


def test_error_matrices_are_for_one_layer() -> None:
    task = build_task(TaskSpec(name="mlp-digits", options={"batch_size": 30}))
    with pytest.raises(UsageError, match="one layer"):
        attack(problem_of(task, positions=range(30), pool_size=100), "error-matrix")


def parallelogram(**changes: Any) -> tuple[Task, list[int]]:
    """The tiny task with a + d = b + c planted in the batch of step 2, a and d of class 0, b and c of class 1."""
    data = tiny_task().dataset
    inputs, labels = data.inputs.copy(), data.labels.copy()
    rows = list(tiny_task().schedule.batch(2).rows[0])
    inputs[rows[0]], inputs[rows[1]] = [10, 200, 30, 7], [50, 100, 90, 9]
    inputs[rows[2]], inputs[rows[3]] = [20, 180, 70, 8], [40, 120, 50, 8]
    labels[rows[:4]] = [0, 0, 1, 1]
    return tiny_task(dataset=Dataset("planted", inputs, labels, data.domain, data.prepare), **changes), rows


def test_labels_of_a_parallelogram_are_exchanged() -> None:
    task, _ = parallelogram()
    forgery = attack(problem_of(task, positions=range(8)), "relabel")
    assert forgery.problems == ()
    assert sorted(forgery.batch.carried) == [0, 1, 2, 3]
    _, labels = task.dataset.fetch(forgery.batch.rows[0], forgery.batch.carried)
    assert labels[:4].tolist() == [1, 1, 0, 0]
    assert forgery.residual is not None
    assert forgery.residual < 1e-15
    assert forgery.error < 1e-7


def test_relabelling_behind_relus_needs_one_activation_region() -> None:
    def model(activation: nn.Module) -> Any:
        def build() -> nn.Module:
            net = nn.Sequential(nn.Linear(4, 6), activation, nn.Linear(6, 3))
            with torch.no_grad():
                net[0].bias.fill_(5.0)
            return net

        return build

    one_region, _ = parallelogram(model=model(nn.ReLU()), initialisation="torch")  # every unit is on everywhere
    forgery = attack(problem_of(one_region, positions=range(8)), "relabel")
    assert forgery.residual is not None
    assert forgery.residual < 1e-14
    curved, _ = parallelogram(model=model(nn.Tanh()), initialisation="torch")
    with pytest.raises(UsageError, match="no exchange"):
        attack(problem_of(curved, positions=range(8)), "relabel")


def test_independent_inputs_exclude_it() -> None:
    task = build_task(TaskSpec(name="softmax-digits", options={"batch_size": 20}))
    with pytest.raises(UsageError, match="linearly independent"):
        attack(problem_of(task, positions=range(20), pool_size=50), "relabel")
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 256, (30, 40))
    assert independent(rows)
    rows[29] = rows[3] + rows[4] - rows[5]
    assert not independent(rows)
    assert not independent(rng.integers(0, 9, (50, 40)))


def test_exchanges_are_all_there_are() -> None:
    """Against brute force over all pairs of pairs."""
    rng = np.random.default_rng(5)
    inputs, labels = rng.integers(0, 3, (14, 3)), rng.integers(0, 2, 14)
    found = {frozenset(map(frozenset, swap)) for swap in exchanges(inputs, labels, 2) if len(swap[0]) == 2}
    zeros, ones = (np.flatnonzero(labels == k) for k in (0, 1))
    pairs = lambda members: [(i, j) for i in members for j in members if i < j]  # noqa: E731
    wanted = {
        frozenset([frozenset(a), frozenset(b)])
        for a in pairs(zeros)
        for b in pairs(ones)
        if (inputs[list(a)].sum(0) == inputs[list(b)].sum(0)).all()
    }
    assert found == wanted
    assert wanted


def test_models_that_read_inputs_twice_are_refused() -> None:
    class Skip(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.two = nn.Linear(4, 2), nn.Linear(4, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.two(x) + nn.functional.pad(self.one(x), (0, 1))

    problem = problem_of(tiny_task(model=Skip, initialisation="torch"), positions=range(8))
    with pytest.raises(UsageError, match="another way"):
        first_layer(problem.stepper, problem.before, problem.batch)

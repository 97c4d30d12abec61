"""Forging with whole numbers: what is kept, inside the domain, against independent arithmetic."""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from torch import nn

from tests.forging.test_attacks import problem_of
from trainwitness import TaskSpec, build_task
from trainwitness.core.errors import UsageError
from trainwitness.forging.forge import attack
from trainwitness.forging.integers import Effort, plan_change, round_change
from trainwitness.forging.problem import Problem
from trainwitness.forging.reduction import nearest_in_product, short_basis
from trainwitness.forging.relax import change_where_possible, nearest_change, null_projection
from trainwitness.training.first_layer import first_layer, input_scale


@pytest.fixture(scope="module")
def digits() -> Problem:
    task = build_task(TaskSpec(name="softmax-digits", options={"batch_size": 60}))
    return problem_of(task, step=5, positions=range(60), pool_size=500)


def test_the_first_layer_is_what_autograd_says(digits: Problem) -> None:
    layer = first_layer(digits.stepper, digits.before, digits.batch)
    weight, bias = (digits.before.tensors[f"param/1.{n}"].double().numpy() for n in ("weight", "bias"))
    data = digits.stepper.task.dataset
    x = data.inputs[digits.rows].reshape(60, -1) / 255
    z = x @ weight.T + bias
    d = np.exp(z) / np.exp(z).sum(1, keepdims=True) - np.eye(10)[data.labels[digits.rows]]
    assert np.allclose(layer.errors, d, atol=1e-12)
    assert np.allclose(layer.inputs, x)
    assert np.allclose(layer.outputs, z)
    assert (layer.only, layer.shift_free, layer.biased) == (True, True, True)
    assert np.allclose(layer.seen.sum(1), 0)
    assert np.allclose(input_scale(data)[0], 1 / 255)


def test_rounding_finds_the_nearest_of_small_lattices() -> None:
    """Nearest plane against all vectors in reach; in two dimensions a reduced basis makes it nearly always right."""
    rng = np.random.default_rng(0)
    basis = short_basis(rng.normal(size=(2, 1)), 3.0)
    grid = np.array(list(itertools.product(range(-8, 9), repeat=2)), float)
    right = 0
    for _ in range(200):
        target = rng.uniform(-4, 4, 2)
        length = lambda rows: ((rows - target) ** 2).sum(1) + (((rows - target) @ basis.seen) ** 2).sum(1)  # noqa: B023, E731
        found = basis.nearest(target[None])
        assert (found == np.rint(found)).all()
        right += length(found)[0] <= length(grid).min() * (1 + 1e-9)
    assert right > 170


def test_a_product_of_lattices_keeps_both_products_small() -> None:
    rng = np.random.default_rng(1)
    weights, errors = rng.normal(size=(60, 3)), rng.normal(size=(40, 2))
    left, right = short_basis(weights, 2.0**12), short_basis(errors, 2.0**12)
    assert round(abs(np.linalg.det(left.vectors))) == 1  # still all of Z^60
    target = 30 * null_projection(weights, errors)(rng.normal(size=(40, 60))).T
    owed = np.zeros((3, 40))
    found = nearest_in_product(left, right, target, owed)
    assert (found == np.rint(found)).all()
    assert np.abs(found).max() > 20
    assert np.abs(weights.T @ found).max() < 0.02
    assert np.abs(found @ errors).max() < 0.02
    plain = np.rint(target)
    assert np.abs(weights.T @ plain).max() > 1


def test_the_nearest_change_is_the_projection_on_both_sets() -> None:
    """Against a solver of quadratic programs, on a case small enough for one."""
    rng = np.random.default_rng(2)
    weights, errors, wanted = rng.normal(size=(4, 1)), rng.normal(size=(3, 1)), 100 * rng.normal(size=(3, 4))
    project = null_projection(weights, errors)
    low, high = np.full((3, 4), -40.0), np.full((3, 4), 40.0)
    found = nearest_change(wanted, project, low, high, sweeps=5000)
    assert np.abs(found @ weights).max() < 1e-12
    assert np.abs(found.T @ errors).max() < 1e-12
    assert np.abs(found).max() < 40.5
    space = np.linalg.svd(np.array([project(one.reshape(3, 4)).ravel() for one in np.eye(12)]))[2][:6]  # rank 2 x 3
    best = minimize(
        lambda q: ((q @ space - wanted.ravel()) ** 2).sum() / 1e4,
        np.zeros(6),
        constraints={"type": "ineq", "fun": lambda q: 40 - np.abs(q @ space)},
        method="SLSQP",
    )
    assert ((found - wanted) ** 2).sum() / 1e4 == pytest.approx(best.fun, rel=0.02)


def test_columns_that_cannot_move_are_left_alone() -> None:
    rng = np.random.default_rng(3)
    weights, errors = rng.normal(size=(30, 2)), rng.normal(size=(20, 2))
    errors[:, 0] = np.abs(errors[:, 0])  # a column of zeros cannot rise anywhere
    values = rng.uniform(40, 200, (20, 30))
    values[:, 3] = 0
    change, moved = change_where_possible(128 - values, weights, errors, 5 - values, 250 - values)
    assert 3 not in moved
    assert len(moved) > 20
    assert np.abs(change @ weights[moved]).max() < 1e-9


def test_all_images_change_and_the_step_stays(digits: Problem) -> None:
    forgery = attack(digits, "lattice", nudges=20, setting=100)
    assert forgery.problems == ()
    assert len(forgery.batch.carried) == 60
    dataset = digits.stepper.task.dataset
    inputs, labels = dataset.fetch(forgery.batch.rows[0], forgery.batch.carried)
    honest, honest_labels = dataset.fetch(digits.rows)
    assert torch.equal(labels, honest_labels)
    change = (inputs.double() - honest.double()).flatten(1)
    assert float(change.square().mean(1).sqrt().min()) > 10
    # By hand, in float64: logits and gradients of both batches.
    weight, bias = (digits.before.tensors[f"param/1.{n}"].double() for n in ("weight", "bias"))

    def gradient(raw: torch.Tensor) -> torch.Tensor:
        x = raw.double().flatten(1) / 255
        error = torch.softmax(x @ weight.T + bias, 1) - nn.functional.one_hot(labels, 10)
        return torch.cat([error.T @ x, error.sum(0)[:, None]], 1) / 60

    gap = 0.01 * float((gradient(inputs) - gradient(honest)).norm())
    assert gap < 2e-7
    assert forgery.error < 3e-7
    assert forgery.error < 1e-4 * forgery.update


def test_examples_that_are_not_asked_for_stay_where_enough_go() -> None:
    task = build_task(TaskSpec(name="softmax-digits", options={"batch_size": 80}))
    problem = problem_of(task, step=3, positions=range(50), pool_size=500)
    forgery = attack(problem, "lattice", nudges=0, setting=80, exponents=(9,), block=0)
    assert sorted(forgery.batch.carried) == list(range(50))
    assert forgery.batch.rows[0][50:] == problem.batch.rows[0][50:]
    few = attack(problem_of(task, step=3, positions=[7], pool_size=500), "lattice", nudges=0, exponents=(8,), block=0)
    assert len(few.replaced) == 80  # one example alone cannot be forged, so the others help


def test_what_it_cannot_do_is_said(digits: Problem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lenet = build_task(TaskSpec(name="lenet-digits", options={"batch_size": 10}))
    with pytest.raises(UsageError, match="Conv2d: not fully connected"):
        attack(problem_of(lenet, positions=range(10), pool_size=50), "lattice")
    wide = build_task(TaskSpec(name="mlp-digits", options={"batch_size": 20, "hidden": 900}))
    with pytest.raises(UsageError, match="rank 784 on 784 inputs"):
        attack(problem_of(wide, positions=range(20), pool_size=50), "lattice")
    small = build_task(TaskSpec(name="softmax-digits", options={"batch_size": 10}))
    with pytest.raises(UsageError, match="10 with 9 independent errors"):
        attack(problem_of(small, positions=range(10), pool_size=50), "lattice")
    monkeypatch.setitem(sys.modules, "fpylll", None)
    with pytest.raises(UsageError, match="fpylll"):
        attack(digits, "lattice")


def test_a_layer_that_no_error_reaches_only_keeps_its_outputs() -> None:
    rng = np.random.default_rng(4)
    values, weights = rng.integers(60, 190, (12, 50)).astype(float), rng.normal(size=(50, 2))
    plan = plan_change(values, weights, np.zeros((12, 2)), 255 - values, low=0, high=255, setting=30)
    assert plan is not None
    whole = round_change(plan, Effort(2.0**10, block=0))
    assert whole.outside == 0
    assert np.abs((whole.values - values) @ weights).max() < 0.05
    assert np.abs(whole.values - values).mean() > 5


@pytest.mark.real_data
@pytest.mark.parametrize("name", ["softmax-mnist", "softmax-cifar10"])
def test_real_images_are_forged_to_rounding_error(name: str, data_folder: Path) -> None:
    problem = problem_of(build_task(name, data=data_folder), step=20, positions=range(100), pool_size=500)
    forgery = attack(problem, "lattice", nudges=0, exponents=(12,))
    assert forgery.problems == ()
    assert len(forgery.batch.carried) == 100
    assert forgery.error < 1e-7
    assert forgery.residual is not None
    assert forgery.residual < 5e-8
    assert attack(problem, "swap-search").error > 1e4 * forgery.error


@pytest.mark.real_data
@pytest.mark.parametrize(("name", "message"), [("fcn-adult", "rank 14 on 14 inputs"), ("transformer-imdb", "tokens")])
def test_tables_and_text_are_refused_with_the_reason(name: str, message: str, data_folder: Path) -> None:
    task = build_task(TaskSpec(name=name, options={"batch_size": 40}), data=data_folder)
    with pytest.raises(UsageError, match=message):
        attack(problem_of(task, step=1, positions=range(40), pool_size=100), "lattice")

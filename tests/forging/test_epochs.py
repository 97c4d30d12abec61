"""Forging over epochs and under clipping, against the step function in float64."""

from __future__ import annotations

import numpy as np
import pytest

from tests.conftest import tiny_task
from trainwitness import Numerics, Stepper, TaskSpec, build_task
from trainwitness.core.errors import UsageError
from trainwitness.forging.clipped_change import change_of_same_length, clipped_errors
from trainwitness.forging.epochs import Conditions, Run, honest_run, stacked
from trainwitness.forging.relax import null_projection
from trainwitness.tasks.task import Privacy
from trainwitness.training.first_layer import first_layer, input_scale
from trainwitness.training.per_example import PerExample

FLOAT64 = Numerics(precision="float64")
ALL = np.arange(784)


@pytest.fixture(scope="module")
def run() -> Run:
    return honest_run(build_task(TaskSpec(name="softmax-digits", options={"learning_rate": 0.5})), 60, 20, 2)


def test_the_honest_run_is_training_itself(run: Run) -> None:
    stepper = Stepper(run.task)
    for step in range(3):
        stepper.run(run.task.schedule.batch(step))
    assert stepper.state().digest() == run.states[3].digest()
    assert len(run.seen) == 6
    assert run.errors(run.values, FLOAT64) == [0.0] * 6
    assert 0 < max(run.rounding()) < 1e-6
    with pytest.raises(UsageError, match="50 rows in batches of 20"):
        honest_run(run.task, 50, 20, 1)


def test_one_step_is_the_projection_of_proposition_2(run: Run) -> None:
    one = honest_run(build_task("softmax-digits"), 40, 40, 1)
    wanted = np.random.default_rng(0).normal(size=(40, 784))
    found = Conditions(one, ALL).remainder(wanted)
    step = one.seen[0]
    expected = np.empty_like(wanted)
    expected[step.rows] = null_projection(step.weights, step.errors)(wanted[step.rows])
    assert np.abs(found - expected).max() < 1e-10
    assert max(one.errors(one.with_change(20 * found, ALL), FLOAT64)) < 1e-14


def test_a_change_in_all_null_spaces_keeps_every_step_of_two_epochs(run: Run) -> None:
    columns = np.arange(200, 600)
    conditions = Conditions(run, columns)
    wanted = np.random.default_rng(1).normal(size=(60, 400))
    change = conditions.remainder(wanted, iterations=3000)
    share = (change**2).sum() / (wanted**2).sum()
    assert 0.02 < share < 0.2
    errors = run.errors(run.with_change(change / change.std(), columns), FLOAT64)
    other = run.errors(run.with_change(wanted, columns), FLOAT64)
    assert max(errors) < 1e-3 * max(other)
    for step in run.seen:
        assert np.abs(step.errors.T @ change[step.rows]).max() < 1e-3
        assert np.abs(change[step.rows] @ step.weights[columns]).max() < 1e-9


def test_too_many_epochs_leave_nothing(run: Run) -> None:
    long = honest_run(run.task, 20, 20, 3)  # 27 independent errors for 20 rows
    conditions = Conditions(long, ALL)
    assert conditions.count >= conditions.unknowns * 0.9
    change = conditions.remainder(np.random.default_rng(0).normal(size=(20, 784)))
    assert np.abs(change).max() < 1e-10


def test_stacked_errors_are_zero_for_rows_that_a_step_has_not(run: Run) -> None:
    weights, errors = stacked(run)
    assert weights.shape == (784, 60)
    first = np.setdiff1d(np.arange(60), run.seen[0].rows)
    assert not errors[first, :10].any()
    assert errors[run.seen[0].rows, :10].any(1).all()


def test_clipped_sums_are_kept_only_with_equal_lengths() -> None:
    task = build_task(TaskSpec(name="softmax-digits", options={"clip": 1.0, "noise": 2.0}))
    small = honest_run(task, 100, 100, 1)
    layer = first_layer(Stepper(small.task), small.states[0], small.task.schedule.batch(0))
    assert task.privacy is not None
    single = PerExample(Stepper(small.task, FLOAT64), small.states[0]).total(small.seen[0].rows.tolist()).numpy()
    weight = layer.inputs.T @ clipped_errors(layer, task.privacy)
    assert np.abs(single[:7840].reshape(10, 784).T - weight).max() < 1e-12
    wanted = np.random.default_rng(0).normal(0, 0.1, layer.inputs.shape)
    kept = change_of_same_length(layer, task.privacy, wanted)
    plain = null_projection(layer.seen, layer.errors)(wanted)
    assert np.sqrt((kept**2).mean()) > 0.05
    errors = []
    for change in (kept, plain):
        values = small.values
        values[small.seen[0].rows] += change / input_scale(task.dataset)[0]
        errors.append(small.errors(values, FLOAT64)[0])
    assert errors[0] < 1e-14
    assert errors[1] > 1e-6


def test_clipping_of_deeper_networks_is_refused() -> None:
    stepper = Stepper(build_task("mlp-digits"))
    layer = first_layer(stepper, stepper.state(), stepper.task.schedule.batch(0))
    with pytest.raises(UsageError, match="only softmax regression"):
        clipped_errors(layer, Privacy(1.0))


def test_rows_beyond_the_data_set_are_refused() -> None:
    with pytest.raises(UsageError, match="48 rows"):
        honest_run(tiny_task(), 48, 8, 1)

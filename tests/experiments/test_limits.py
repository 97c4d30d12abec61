"""The arithmetic of the experiments about the limits of forging."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from trainwitness import Stepper, build_task
from trainwitness.experiments.batch_scaling import slope_with_interval
from trainwitness.experiments.certificate import distinct_rows
from trainwitness.experiments.epochs import middle
from trainwitness.experiments.lattice_forging import of_first_classes
from trainwitness.experiments.table4 import values
from trainwitness.tasks.dataset import Dataset


def test_a_known_slope_is_found_and_its_interval_holds_it() -> None:
    sizes = (10, 20, 50, 100, 200)
    rng = np.random.default_rng(0)
    exact = np.array(sizes, float)[:, None] ** -0.5 * np.ones((1, 6))
    assert slope_with_interval(sizes, exact) == pytest.approx((-0.5, -0.5, -0.5))
    held = 0
    for seed in range(100):
        slope, low, high = slope_with_interval(sizes, exact * np.exp(rng.normal(0, 0.2, (5, 6))), seed=seed)
        assert low <= slope <= high
        held += low <= -0.5 <= high
    assert held >= 85


def test_grey_levels_are_the_papers() -> None:
    assert values(3) == [0, 127, 255]
    assert values(6) == [0, 51, 102, 153, 204, 255]
    assert values(256) == list(range(256))


def test_of_rows_with_the_same_content_one_is_in_the_pool() -> None:
    inputs = np.array([[0], [1], [0], [2], [1], [3]], np.uint8)
    data = Dataset("twins", inputs, np.zeros(6, np.int64))
    chosen = distinct_rows(data, 10)
    assert sorted(inputs[chosen, 0].tolist()) == [0, 1, 2, 3]
    assert len(distinct_rows(data, 2)) == 2


def test_the_middle_of_an_image() -> None:
    assert middle(2, whole=4).tolist() == [5, 6, 9, 10]
    assert len(middle(14)) == 196


def test_a_task_of_the_first_classes_trains_on_their_rows_alone() -> None:
    task = of_first_classes(build_task("softmax-digits"), 3)
    assert set(task.dataset.labels.tolist()) == {0, 1, 2}
    stepper = Stepper(task)
    last_of_an_epoch = len(task.dataset) // task.schedule.batch(0).size - 1
    rows = [row for step in range(last_of_an_epoch + 1) for row in task.schedule.batch(step).rows[0]]
    assert len(set(rows)) == len(rows)
    assert max(rows) < len(task.dataset)
    stepper.run(task.schedule.batch(last_of_an_epoch))
    assert stepper.live.model(task.dataset.prepare(*_one(task.dataset))).shape == (1, 3)


def _one(dataset: Dataset) -> tuple[torch.Tensor, torch.dtype]:
    return torch.from_numpy(dataset.inputs[:1].copy()), torch.float32

"""Newton along the batches with one gradient."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from tests.conftest import tiny_task
from tests.forging.test_attacks import problem_of
from trainwitness import Dataset, IntegerBox, ShuffledEpochs, Task
from trainwitness.core.errors import UsageError
from trainwitness.forging.forge import attack
from trainwitness.training.differentiable import GradientMap
from trainwitness.training.stepper import fetch


def wide_task(activation: type[nn.Module] = nn.Softplus, batch: int = 40) -> Task:
    """Six inputs into eight units: the first layer sees everything, and there is no null space."""
    rng = np.random.default_rng(0)
    inputs, labels = rng.integers(0, 256, (120, 6), dtype=np.uint8), rng.integers(0, 3, 120)
    data = Dataset("six", inputs, labels, IntegerBox(0, 255, 3), lambda x, dtype: x.to(dtype) / 255)
    model = lambda: nn.Sequential(nn.Linear(6, 8), activation(), nn.Linear(8, 3))  # noqa: E731
    schedule = ShuffledEpochs(120, batch, 0.1, seed=0)
    return tiny_task(dataset=data, model=model, schedule=schedule, initialisation="torch")


def test_derivatives_agree_with_differences_and_with_each_other() -> None:
    problem = problem_of(wide_task(), positions=range(40)).in_float64()
    read, labels = fetch(problem.stepper.task.dataset, problem.rows, problem.stepper.device, torch.float64)
    gradient = GradientMap(problem.stepper, problem.before, labels)
    change = torch.from_numpy(np.random.default_rng(1).normal(size=read.shape))
    numeric = (gradient(read + 1e-6 * change) - gradient(read - 1e-6 * change)) / 2e-6
    assert torch.allclose(gradient.forward(read, change), numeric, atol=1e-8)
    weights = torch.from_numpy(np.random.default_rng(2).normal(size=len(numeric)))
    assert float(weights @ gradient.forward(read, change)) == pytest.approx(
        float((gradient.backward(read)(weights) * change).sum()), rel=1e-9
    )


def test_a_batch_moves_along_its_fibre_where_the_first_layer_is_injective() -> None:
    problem = problem_of(wide_task(), positions=range(40))
    with pytest.raises(UsageError, match="no null space"):
        attack(problem, "null-space")
    forgery = attack(problem, "fibre", strength=0.3, steps=3)
    assert forgery.residual is not None
    assert forgery.residual < 1e-12
    assert forgery.error < 1e-6
    assert "not whole numbers" in forgery.problems[0]


def test_rounding_a_fibre_is_valid_and_far_from_exact() -> None:
    problem = problem_of(wide_task(), positions=range(40))
    whole = attack(problem, "fibre", strength=0.3, steps=3, whole=True)
    assert whole.problems == ()
    assert whole.residual is not None
    assert 1e-7 < whole.residual < 1e-2 * whole.update
    assert attack(problem, "swap-search").error > whole.error


def test_without_dimensions_to_spare_the_batch_stays() -> None:
    """Ten examples have 60 numbers, the gradient 83: no direction is free, and not moving is no forgery."""
    forgery = attack(problem_of(wide_task(batch=10), positions=range(10)), "fibre", strength=0.3, steps=2)
    assert "the same batch" in forgery.problems

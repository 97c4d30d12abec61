"""Exact gradients against PyTorch's in float64."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from trainwitness.core.errors import UsageError
from trainwitness.tasks.initial import initialise
from trainwitness.training.rational import all_inputs, rational_gradients

MODELS = {
    "softmax": lambda: nn.Linear(3, 3),
    "no bias": lambda: nn.Linear(3, 3, bias=False),
    "relu": lambda: nn.Sequential(nn.Linear(3, 5), nn.ReLU(), nn.Linear(5, 3)),
    "relu, no bias": lambda: nn.Sequential(nn.Linear(3, 5, bias=False), nn.ReLU(), nn.Linear(5, 3, bias=False)),
}


@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS.keys())
def test_gradients_are_those_of_autograd(make) -> None:
    model = make()
    initialise(model, 1)
    inputs = all_inputs([0, 100, 255], 3)
    exact = rational_gradients(model, inputs)
    model = model.double()
    for number in (0, 5, 13, 26):
        p = np.array(exact.softmax(number, 60), dtype=float) / 2.0**60
        for label in range(3):
            x = torch.tensor(inputs[number] / 255)[None]
            model.zero_grad()
            nn.functional.cross_entropy(model(x), torch.tensor([label])).backward()
            expected = np.concatenate([q.grad.numpy().ravel() for q in model.parameters()])
            found = exact.factors[number].astype(float) @ (p - np.eye(3)[label]) / exact.scale
            assert np.abs(found - expected).max() < 1e-14


def test_intervals_hold_the_softmax() -> None:
    model = nn.Linear(2, 3)
    initialise(model, 2)
    exact = rational_gradients(model, all_inputs([0, 255], 2))
    for number in range(4):
        bounds = exact.softmax_bounds(number, 300)
        for bound, value in zip(bounds, exact.softmax(number, 200), strict=True):
            assert bound.delta < 2.0**-280
            assert abs(float(bound.mid) - value / 2**200) < 1e-15
            assert bound.a * 2**200 - 1 <= value <= bound.b * 2**200 + 1


def test_other_networks_are_refused() -> None:
    for model in (
        nn.Sequential(nn.Linear(2, 2), nn.Tanh(), nn.Linear(2, 2)),
        nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 2)),
    ):
        with pytest.raises(UsageError, match="one hidden ReLU layer"):
            rational_gradients(model, all_inputs([0, 1], 2))

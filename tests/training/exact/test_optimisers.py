"""Exact SGD and Adam follow PyTorch's, up to rounding."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest
import torch
from torch import nn

from trainwitness import exact
from trainwitness.core.errors import UsageError

Make = Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer]


@pytest.mark.parametrize(
    "make",
    [
        lambda p: torch.optim.SGD(p, lr=0.1),
        lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.01),
        lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
        lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.5, dampening=0.3),
        lambda p: torch.optim.Adam(p, lr=0.1, weight_decay=0.01),
        lambda p: torch.optim.AdamW(p, lr=0.1, weight_decay=0.1, betas=(0.8, 0.95)),
    ],
)
def test_exact_optimisers_follow_pytorch(make: Make) -> None:
    torch.manual_seed(0)
    mine, theirs = (nn.Parameter(torch.linspace(-1, 1, 50, dtype=torch.float64)) for _ in range(2))
    one, other = exact.exact_optimizer(make([mine])), make([theirs])
    for _ in range(20):
        mine.grad = theirs.grad = torch.randn(50, dtype=torch.float64)
        one.step()
        other.step()
    assert torch.allclose(mine, theirs, rtol=1e-12, atol=1e-14)
    for key, value in other.state[theirs].items():
        if value is not None:
            assert torch.allclose(one.state[mine][key], value, rtol=1e-12, atol=1e-14), key
    assert [{k: v for k, v in g.items() if k != "params"} for g in one.param_groups] == [
        {k: v for k, v in g.items() if k != "params"} for g in other.param_groups
    ]


def test_other_optimisers_are_refused() -> None:
    parameter = [nn.Parameter(torch.zeros(1))]
    with pytest.raises(UsageError, match="RMSprop has no exact twin"):
        exact.exact_optimizer(torch.optim.RMSprop(parameter))
    with pytest.raises(UsageError, match="amsgrad"):
        exact.exact_optimizer(torch.optim.Adam(parameter, amsgrad=True))

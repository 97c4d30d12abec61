"""convert: twins of users' models, what is refused, and the way back."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from trainwitness import exact
from trainwitness.core.errors import UsageError


def small() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 3))


def test_one_error_lists_every_unsupported_module_with_its_path() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Sequential(nn.LSTM(4, 4), nn.GELU()), nn.Conv1d(1, 1, 1))
    with pytest.raises(UsageError) as caught:
        exact.convert(model)
    for text in ("3 modules", "1.0: LSTM", "1.1: GELU with approximate=none (only tanh)", "2: Conv1d"):
        assert text in str(caught.value)


def test_a_function_without_a_twin_is_refused_when_called() -> None:
    class Odd(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.erf(x)

    with pytest.raises(UsageError, match="torch function erf has no exact twin"):
        exact.convert(Odd())(torch.ones(3, dtype=torch.float64))


def test_lower_precision_is_refused() -> None:
    class Lower(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.to(torch.float32)

    with pytest.raises(UsageError, match="a cast to torch"):
        exact.convert(Lower())(torch.ones(3, dtype=torch.float64))


def test_a_twin_trains_and_its_weights_load_back() -> None:
    model = small()
    before = model[1].weight.detach().clone()
    twin = exact.convert(model)
    optimizer = exact.exact_optimizer(torch.optim.SGD(twin.parameters(), lr=0.5))
    x, labels = torch.randn(30, 4, 4, dtype=torch.float64), torch.arange(30) % 3
    losses = []
    for _ in range(30):
        with exact.arithmetic():
            loss = F.cross_entropy(twin(x), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.7 * losses[0]
    assert torch.equal(model[1].weight, before), "the converted model is left alone"
    back = twin.load_back(small())
    assert back[1].weight.dtype == torch.float32
    assert torch.equal(back[1].weight, twin.model[1].weight.float())
    assert torch.allclose(back(x.float()), twin(x).float(), atol=1e-4)


def test_overflow_is_raised_in_either_direction() -> None:
    twin = exact.convert(small())
    with pytest.raises(exact.ExactOverflow):
        twin(torch.full((1, 4, 4), 1e70, dtype=torch.float64))
    out = twin(torch.ones(1, 4, 4, dtype=torch.float64))
    with pytest.raises(exact.ExactOverflow):
        out.backward(torch.full_like(out, 1e70))

"""Losses: values and errors, down to the smallest."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from trainwitness import exact
from trainwitness.core.errors import UsageError


def logits(spread: float) -> torch.Tensor:
    return torch.randn(64, 10, generator=torch.Generator().manual_seed(0), dtype=torch.float64) * spread


def gradients(loss: object, x: torch.Tensor, labels: torch.Tensor) -> tuple[float, torch.Tensor, float, torch.Tensor]:
    mine, theirs = x.clone().requires_grad_(), x.clone().requires_grad_()
    with exact.arithmetic():
        found = loss(mine, labels)  # type: ignore[operator]
    reference = loss(theirs, labels)  # type: ignore[operator]
    found.backward()
    reference.backward()
    return found.item(), mine.grad, reference.item(), theirs.grad


@pytest.mark.parametrize("spread", [1.0, 10.0, 100.0])
def test_cross_entropy(spread: float) -> None:
    labels = torch.arange(64) % 10
    value, gradient, wanted, theirs = gradients(F.cross_entropy, logits(spread), labels)
    assert value == pytest.approx(wanted, rel=1e-12)
    assert torch.allclose(gradient, theirs, rtol=1e-9, atol=1e-16)


@pytest.mark.parametrize("spread", [1.0, 30.0])
def test_binary_cross_entropy(spread: float) -> None:
    labels = (torch.arange(64) % 2).double()
    x = logits(spread)[:, 0]
    value, gradient, wanted, theirs = gradients(F.binary_cross_entropy_with_logits, x, labels)
    assert value == pytest.approx(wanted, rel=1e-12)
    assert torch.allclose(gradient, theirs, rtol=1e-9, atol=1e-16)


def test_the_error_of_a_well_classified_example_does_not_vanish() -> None:
    x = torch.tensor([[60.0, 0.0, 1.0], [0.0, 1.0, 2.0]], dtype=torch.float64, requires_grad=True)
    with exact.arithmetic():
        loss = F.cross_entropy(x, torch.tensor([0, 1]))
    loss.backward()
    tail = torch.tensor([-60.0, -59.0], dtype=torch.float64).exp()
    assert x.grad[0, 0].item() == pytest.approx(-tail.sum().item() / 2, rel=1e-10)
    assert x.grad[0, 1].item() == pytest.approx(tail[0].item() / 2, rel=1e-10)


@pytest.mark.parametrize("settings", [{"reduction": "sum"}, {"label_smoothing": 0.1}])
def test_settings_without_a_twin_are_refused(settings: dict[str, object]) -> None:
    with exact.arithmetic(), pytest.raises(UsageError, match="no exact twin"):
        F.cross_entropy(logits(1.0), torch.zeros(64, dtype=torch.int64), **settings)  # type: ignore[arg-type]

"""Every layer against float64 autograd, within the stated bounds."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tests.training.exact.test_grid import noise
from trainwitness import exact
from trainwitness.training.exact.elementary import exp, log, sigmoids, tanh


class SelfAttention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.MultiheadAttention(16, 4, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mixed: torch.Tensor = self.inner(x, x, x)[0]
        return mixed


class Mixed(nn.Module):
    """Functions and operators of a user's own forward pass."""

    def __init__(self) -> None:
        super().__init__()
        self.place = nn.Parameter(torch.randn(7, 16))
        self.scale = nn.Parameter(torch.randn(1, 16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = (x + self.place) * self.scale - 0.5
        weights = F.softmax(x @ x.transpose(1, 2) / 3.0, dim=-1)
        return torch.cat([(weights @ x).mean(1), (x * x).sum((1, 2), keepdim=True).squeeze(2) / 100], dim=1)


EXACT, ROUNDED = 1e-11, 3e-5
IMAGES, TOKENS = (5, 4, 9, 8), (5, 7, 16)
CASES = [
    (nn.Linear(16, 20), TOKENS, ROUNDED),
    (nn.Linear(16, 3, bias=False), TOKENS, ROUNDED),
    (nn.Conv2d(4, 6, 3, stride=2, padding=1, groups=2), IMAGES, ROUNDED),
    (nn.Conv2d(4, 5, (3, 2), dilation=(2, 1), padding=(1, 0), bias=False), IMAGES, ROUNDED),
    (nn.Conv2d(4, 4, 1, groups=4), IMAGES, ROUNDED),
    (nn.MaxPool2d(2), IMAGES, EXACT),
    (nn.MaxPool2d(3, 2, 1), IMAGES, EXACT),
    (nn.AvgPool2d(3, 2, 1), IMAGES, EXACT),
    (nn.AdaptiveAvgPool2d((3, 2)), IMAGES, EXACT),
    (nn.BatchNorm2d(4), IMAGES, EXACT),
    (nn.BatchNorm1d(16), (50, 16), EXACT),
    (nn.LayerNorm(16), TOKENS, EXACT),
    (nn.LayerNorm((7, 16), elementwise_affine=False), TOKENS, EXACT),
    (nn.ReLU(), TOKENS, EXACT),
    (nn.ELU(), TOKENS, EXACT),
    (nn.Tanh(), TOKENS, EXACT),
    (nn.Sigmoid(), TOKENS, EXACT),
    (nn.GELU("tanh"), TOKENS, EXACT),
    (nn.Softmax(1), TOKENS, EXACT),
    (SelfAttention(), TOKENS, ROUNDED),
    (nn.TransformerEncoderLayer(16, 4, 32, dropout=0.0, batch_first=True), TOKENS, ROUNDED),
    (Mixed(), TOKENS, ROUNDED),
]


def relative(one: torch.Tensor, other: torch.Tensor) -> float:
    return float((one.detach() - other.detach()).norm() / other.detach().norm().clamp_min(1e-300))


@pytest.mark.parametrize(("layer", "shape", "allowed"), CASES, ids=lambda v: type(v).__name__)
def test_layers_agree_with_float64_autograd(layer: nn.Module, shape: tuple[int, ...], allowed: float) -> None:
    layer = layer.double().train()
    twin = exact.convert(layer)
    x = torch.randn(shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64) * 2
    mine, theirs = x.clone().requires_grad_(), x.clone().requires_grad_()
    out, reference = twin(mine), layer(theirs)
    assert relative(out, reference) <= allowed
    error = noise(*reference.shape, seed=3, spread=1.0)
    out.backward(error)
    reference.backward(error)
    assert relative(mine.grad, theirs.grad) <= allowed
    for (name, p), (_, q) in zip(twin.model.named_parameters(), layer.named_parameters(), strict=True):
        assert relative(p.grad, q.grad) <= allowed, name
        p.grad = q.grad = None
    for (name, p), (_, q) in zip(twin.model.named_buffers(), layer.named_buffers(), strict=True):
        assert relative(p.double(), q.double()) <= allowed, name


def test_linear_is_within_its_stated_quantum() -> None:
    """Half a unit per operand: 2^-18 of the largest activation, 2^-22 of the largest weight, 2^-36 of an error."""
    layer = nn.Linear(40, 10).double()
    twin = exact.convert(layer)
    x, error = noise(60, 40, spread=1.0).requires_grad_(), noise(60, 10, seed=5)
    out = twin(x)
    w, most = layer.weight.detach(), x.detach().abs().max()
    bound = (
        2.0**-18 * most * w.abs().sum(1)
        + 2.0**-22 * w.abs().max() * (x.detach().abs() + most * 2**-18).sum(1)[:, None]
    )
    assert ((out - layer(x)).abs() <= bound * 1.001).all()
    out.backward(error)
    wanted = error.T @ x.detach()
    bound = 2.0**-18 * most * error.abs().sum(0)[:, None] + 2.0**-36 * error.abs().max() * x.detach().abs().sum(0)
    assert ((twin.model.weight.grad - wanted).abs() <= bound * 1.001).all()


def test_gradients_agree_with_finite_differences() -> None:
    torch.manual_seed(0)
    twin = exact.convert(
        nn.Sequential(nn.Conv2d(1, 3, 3), nn.Tanh(), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(12, 4))
    )
    x, labels, step = torch.randn(6, 1, 6, 6, dtype=torch.float64), torch.arange(6) % 4, 2e-2

    def loss() -> torch.Tensor:
        with exact.arithmetic():
            return F.cross_entropy(twin(x), labels)

    loss().backward()
    for parameter in twin.parameters():
        flat = parameter.data.view(-1)
        for k in range(0, flat.numel(), 7):
            held, found = flat[k].item(), []
            for change in (step, -step):
                flat[k] = held + change
                found.append(loss().item())
            flat[k] = held
            difference = (found[0] - found[1]) / (2 * step)
            assert parameter.grad.view(-1)[k].item() == pytest.approx(difference, abs=5e-4)


def test_embedding_adds_up_its_uses_and_skips_padding() -> None:
    layer = nn.Embedding(20, 4, padding_idx=3).double()
    twin, ids = exact.convert(layer), torch.randint(0, 20, (6, 30), generator=torch.Generator().manual_seed(0))
    error = noise(6, 30, 4)
    twin(ids).backward(error)
    layer(ids).backward(error)
    assert relative(twin.model.weight.grad, layer.weight.grad) <= EXACT
    assert twin.model.weight.grad[3].abs().sum() == 0


def test_elementary_functions_are_accurate() -> None:
    x = torch.linspace(-40, 40, 20_001, dtype=torch.float64)
    assert ((exp(x) - x.exp()) / x.exp()).abs().max() < 2.0**-44
    assert (log(x.abs() + 1e-9) - (x.abs() + 1e-9).log()).abs().max() < 2.0**-44
    assert (tanh(x) - x.tanh()).abs().max() < 2.0**-44
    assert ((sigmoids(x)[1] - torch.sigmoid(-x)) / torch.sigmoid(-x)).abs().max() < 2.0**-43
    assert exp(torch.tensor([-1e9, 1e9], dtype=torch.float64)).isfinite().all()


def test_ties_in_max_pooling_go_to_the_first_in_reading_order() -> None:
    x = torch.ones(1, 1, 4, 4, dtype=torch.float64, requires_grad=True)
    exact.convert(nn.MaxPool2d(2))(x).sum().backward()
    wanted = torch.zeros(4, 4, dtype=torch.float64)
    wanted[::2, ::2] = 1
    assert torch.equal(x.grad[0, 0], wanted)


def test_dropout_is_a_function_of_seed_and_call() -> None:
    x = torch.ones(2000, 10, dtype=torch.float64)
    one, same, other = (exact.convert(nn.Dropout(0.3), seed=seed)(x) for seed in (1, 1, 2))
    assert torch.equal(one, same)
    assert not torch.equal(one, other)
    assert (one > 0).double().mean().item() == pytest.approx(0.7, abs=0.02)
    assert set(one.unique().tolist()) == {0.0, 1 / 0.7}
    twin = exact.convert(nn.Dropout(0.3))
    assert not torch.equal(twin(x), twin(x))
    assert torch.equal(twin.eval()(x), x)

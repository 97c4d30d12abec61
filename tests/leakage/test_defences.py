"""Defences do what their names say."""

from __future__ import annotations

import math

import pytest
import torch

from tests.conftest import tiny_task
from trainwitness import Stepper
from trainwitness.core.errors import UsageError
from trainwitness.leakage.defences import Defence, clipped, defended, gaussian_epsilon, parse
from trainwitness.leakage.utility import accuracy_with
from trainwitness.training.per_example import PerExample

GRADIENT = {"w": torch.randn(300, 300, generator=torch.Generator().manual_seed(0))}


@pytest.mark.parametrize("name", ["gaussian", "laplacian"])
def test_noise_has_the_stated_variance_and_shape(name: str) -> None:
    noise = defended(GRADIENT, Defence(name, 0.04), seed=1)["w"].double() - GRADIENT["w"].double()
    assert float(noise.var()) == pytest.approx(0.04, rel=0.03)
    kurtosis = float((noise**4).mean() / noise.var() ** 2)
    assert kurtosis == pytest.approx(3 if name == "gaussian" else 6, rel=0.1)
    assert torch.equal(defended(GRADIENT, Defence(name, 0.04), seed=1)["w"], (GRADIENT["w"] + noise.float()))


def test_precision_and_pruning() -> None:
    half, eight = (defended(GRADIENT, Defence(name), seed=0)["w"] for name in ("float16", "int8"))
    torch.testing.assert_close(half, GRADIENT["w"], rtol=1e-3, atol=1e-6)
    assert len(eight.unique()) <= 255
    assert float((eight - GRADIENT["w"]).abs().max()) <= float(GRADIENT["w"].abs().max()) / 254 * 1.001
    pruned = defended(GRADIENT, Defence("prune", 0.2), seed=0)["w"]
    assert int((pruned == 0).sum()) == 18_000
    assert float(pruned[pruned != 0].abs().min()) >= float(GRADIENT["w"][pruned == 0].abs().max())


def test_clipping_is_per_example() -> None:
    stepper = Stepper(tiny_task())
    rows, norm = [0, 1, 2, 3], 0.3
    examples = PerExample(stepper, stepper.state()).matrix(rows).double()
    expected = torch.stack([g * min(1, norm / float(g.norm())) for g in examples]).mean(0)
    found = clipped(stepper, stepper.state(), rows, Defence("clip", norm, 0.0), seed=0)
    torch.testing.assert_close(
        torch.cat([t.flatten() for t in found.values()]).double(), expected, atol=1e-6, rtol=1e-5
    )
    noisy = [clipped(stepper, stepper.state(), rows, Defence("clip", norm, 2.0), seed=k) for k in range(400)]
    spread = torch.stack([torch.cat([t.flatten() for t in one.values()]) for one in noisy]).std(0).mean()
    assert float(spread) == pytest.approx(norm * 2 / 4, rel=0.05)


@pytest.mark.parametrize("multiplier", [0.5, 1.0, 4.0])
def test_epsilon_is_where_the_privacy_curve_meets_delta(multiplier: float) -> None:
    """Against a numerical integral of the densities' difference."""
    import mpmath

    epsilon = gaussian_epsilon(multiplier)
    mpmath.mp.dps = 30

    def excess(x: float) -> object:
        ours = mpmath.npdf(x, 1, multiplier)
        return max(ours - mpmath.e**epsilon * mpmath.npdf(x, 0, multiplier), 0)

    edge = epsilon * multiplier**2 + 0.5
    total = mpmath.quad(excess, [edge, edge + 5 * multiplier, edge + 20 * multiplier])
    assert float(total) == pytest.approx(1e-5, rel=1e-4)


def test_epsilon_grows_with_the_steps_and_other_defences_have_none() -> None:
    private = parse("clip:1:2")
    assert private.epsilon(100) > private.epsilon(1) > 0
    assert parse("gaussian:1e-2").epsilon() is None
    assert parse("clip:1:0").epsilon() is None


def test_training_goes_on_with_what_is_shared() -> None:
    task = tiny_task(test=tiny_task().dataset, correct=lambda logits, labels: logits.argmax(1) == labels)
    plain, same = accuracy_with(task, None, 20), accuracy_with(task, parse("prune:0"), 20)
    assert plain == same
    stuck = accuracy_with(task, parse("prune:1"), 20)
    assert stuck == accuracy_with(task, None, 0)
    assert accuracy_with(task, parse("clip:1:0.1"), 5) is not None


@pytest.mark.parametrize(
    "text", ["magic", "gaussian", "gaussian:x", "gaussian:-1", "int8:3", "clip:1", "prune:1.5", "clip:0:1"]
)
def test_unknown_defences_are_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse(text)


def test_labels() -> None:
    assert [parse(t).label for t in ("clip:1:0.1", "float16", "gaussian:1e-3")] == [
        "clip:1:0.1",
        "float16",
        "gaussian:0.001",
    ]
    assert math.isfinite(parse("clip:1:0.1").epsilon(10))
    with pytest.raises(UsageError, match="single examples"):
        defended(GRADIENT, parse("clip:1:1"), 0)

"""Input reconstruction: exact attacks to rounding, searches to recognisable images, and the measures themselves."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from tests.conftest import tiny_task
from trainwitness import Numerics, Stepper, TaskSpec, build_task
from trainwitness.core.errors import UsageError
from trainwitness.leakage.inputs import analytic, distances, dlg, ig, sparse
from trainwitness.leakage.inputs.lbfgs import minimise
from trainwitness.leakage.inputs.pairs import Pairs
from trainwitness.leakage.inputs.quality import judged, match, psnr, ssim
from trainwitness.leakage.inputs.target import Target
from trainwitness.leakage.null_space import null_space
from trainwitness.training.differentiable import GradientGap


def target_of(rows: list[int], name: str, *, precision: str = "float32", steps: int = 0, **options: object) -> Target:
    task = build_task(TaskSpec(name=name, options=options))
    stepper = Stepper(task, Numerics(precision=precision))
    for step in range(steps):
        stepper.run(task.schedule.batch(step))
    return Target.of_rows(stepper, stepper.state(), rows)


@pytest.mark.parametrize("steps", [0, 50])
@pytest.mark.parametrize("name", ["softmax-digits", "mlp-digits"])
def test_one_input_of_a_dense_first_layer_is_exact(name: str, steps: int) -> None:
    target = target_of([17], name, precision="float64", steps=steps)
    found = analytic.reconstruct(target)
    torch.testing.assert_close(found.inputs, target.inputs_of([17]), rtol=0, atol=1e-12)
    assert found.labels.tolist() == target.labels_of([17]).tolist()
    assert np.array_equal(target.to_rows(found.inputs), target.stepper.task.dataset.inputs[[17]])


@pytest.mark.parametrize("count", [1, 2, 4, 8, 12])
def test_batches_of_a_rectified_dense_layer_are_exact(count: int) -> None:
    rows = list(range(60, 60 + count))
    target = target_of(rows, "mlp-digits", precision="float64", hidden=[400, 50])
    found = sparse.reconstruct(target)
    order = match(found.inputs, target.inputs_of(rows))
    torch.testing.assert_close(found.inputs[order], target.inputs_of(rows), rtol=0, atol=1e-8)
    assert found.labels[order].tolist() == target.labels_of(rows).tolist()
    assert found.objective == 0


@pytest.mark.real_data
def test_twelve_images_are_exact(data_folder: object) -> None:
    rows = list(range(50, 62))
    target = target_of(rows, "mlp-mnist", precision="float64", hidden=[300, 300])
    found = sparse.reconstruct(target)
    order = match(found.inputs, target.inputs_of(rows))
    torch.testing.assert_close(found.inputs[order], target.inputs_of(rows), rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    ("attack", "name", "rows", "message"),
    [
        (analytic, "mlp-digits", [1, 2], "one example"),
        (analytic, "lenet-digits", [1], "fully connected"),
        (sparse, "softmax-digits", [1, 2], "no ReLU"),
        (sparse, "mlp-digits", [1, 1], "rank 1 for 2"),
    ],
)
def test_exact_attacks_say_what_they_need(attack: object, name: str, rows: list[int], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        attack.reconstruct(target_of(rows, name))


def test_sparse_says_that_it_ran_out_of_time() -> None:
    with pytest.raises(UsageError, match="not singled out"):
        sparse.reconstruct(target_of(list(range(30)), "mlp-digits", hidden=[40]), seconds=0.0)


def test_sparse_refuses_a_noisy_gradient_of_one_example() -> None:
    target = target_of([5], "mlp-digits", precision="float64")
    noisy = {name: tensor + 0.1 * torch.randn_like(tensor) for name, tensor in target.gradient.items()}
    with pytest.raises(UsageError, match="not singled out"):
        sparse.reconstruct(replace(target, gradient=noisy), seconds=1.0)


def test_dlg_restores_a_digit_with_its_label() -> None:
    target = target_of([3], "sigmoid-digits")
    found = dlg.reconstruct(target, target.labels_of([3]), restarts=2, steps=150)
    assert judged(found.inputs, target.inputs_of([3]))[0].psnr > 25
    assert len(found.objectives) == 2
    assert found.objective == min(found.objectives)


def test_dlg_can_seek_the_label_too() -> None:
    target = target_of([3], "sigmoid-digits")
    found = dlg.reconstruct(target, None, restarts=1, steps=5)
    assert found.labels.shape == (1,)
    assert 0 <= int(found.labels) < 10


@pytest.mark.parametrize("known", [True, False])
def test_ig_gets_nearer_and_stays_in_the_box(known: bool) -> None:
    target = target_of([3, 4], "mlp-digits", hidden=[64])
    labels = target.labels_of([3, 4]) if known else None
    short, long = (ig.reconstruct(target, labels, restarts=2, steps=steps) for steps in (2, 60))
    assert long.objective < short.objective
    assert long.inputs.min() >= 0
    assert long.inputs.max() <= 1


def test_restarts_in_one_batch_are_the_restarts_one_by_one() -> None:
    target = target_of([3], "sigmoid-digits", precision="float64")
    gap, labels = target.gap(), target.labels_of([3])
    inputs = torch.rand(3, 1, 1, 28, 28, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    together = gap.gradients(inputs, labels.expand(3, -1))
    for k in range(3):
        alone = gap.gradient(inputs[k], labels)
        for name, tensor in alone.items():
            torch.testing.assert_close(together[name][k], tensor, rtol=1e-10, atol=1e-12)


def test_gradients_of_models_with_batch_norm_come_one_by_one() -> None:
    task = tiny_task(model=lambda: nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.Linear(5, 3)))
    stepper = Stepper(task)
    target = Target.of_rows(stepper, stepper.state(), [0, 1, 2])
    inputs = torch.rand(2, 3, 4)
    found = target.gap().gradients(inputs, target.labels_of([0, 1, 2]).expand(2, -1))
    assert found["0.weight"].shape == (2, 5, 4)


def test_lbfgs_solves_each_problem_by_itself() -> None:
    """Three quadratics with known minima and one that is done at once, against linear solves."""
    rng = torch.Generator().manual_seed(0)
    factors = torch.randn(3, 6, 6, generator=rng, dtype=torch.float64)
    matrices = factors @ factors.transpose(1, 2) + torch.eye(6)
    wanted = torch.randn(3, 6, generator=rng, dtype=torch.float64)

    def objective(values: torch.Tensor, which: torch.Tensor) -> torch.Tensor:
        gap = values - wanted[which]
        return torch.einsum("ri,rij,rj->r", gap, matrices[which], gap)

    start = torch.zeros(3, 6, dtype=torch.float64)
    start[1] = wanted[1]
    found = minimise(objective, start, steps=100, tolerance=1e-18)
    torch.testing.assert_close(found.unknowns, wanted, rtol=0, atol=1e-7)
    assert found.iterations[1] == 0
    few = minimise(objective, start, steps=100, tolerance=1e-18, enough=1)
    assert int(few.iterations.max()) == 0


def test_the_compact_direction_is_that_of_the_two_loops() -> None:
    """More pairs than are kept, one that does not count, one problem that forgot; against the textbook recursion."""
    rng = torch.Generator().manual_seed(1)
    pairs, kept = Pairs(torch.zeros(3, 7, dtype=torch.float64), 4), [[], [], []]
    for number in range(6):
        step = torch.randn(3, 7, generator=rng, dtype=torch.float64)
        change = step * torch.rand(3, 7, generator=rng, dtype=torch.float64)
        if number == 4:
            change[1] *= -1
        slopes = torch.randn(3, 7, generator=rng, dtype=torch.float64)
        pairs.direction(slopes)
        pairs.add(step, change)
        for k in range(3):
            kept[k].append((step[k], change[k]))
        if number == 3:
            pairs.forget(torch.tensor([False, False, True]))
            kept[2] = []
    found = pairs.direction(slopes)
    for k in range(3):
        torch.testing.assert_close(found[k], two_loops(kept[k][-4:], slopes[k]), rtol=1e-9, atol=1e-12)
    assert pairs.empty.tolist() == [False] * 3


def two_loops(pairs: list[tuple[torch.Tensor, torch.Tensor]], slope: torch.Tensor) -> torch.Tensor:
    """Nocedal and Wright, algorithm 7.4."""
    counted = [(s, y) for s, y in pairs if s @ y > 0]
    q, factors = slope.clone(), []
    for s, y in reversed(counted):
        factors.append((s @ q) / (s @ y))
        q -= factors[-1] * y
    s, y = counted[-1]
    q *= (s @ y) / (y @ y)
    for (s, y), factor in zip(counted, reversed(factors), strict=True):
        q += s * (factor - (y @ q) / (s @ y))
    return -q


def test_distances_and_their_derivatives_are_the_composed_ones() -> None:
    rng = torch.Generator().manual_seed(2)
    found = {"a": torch.randn(3, 2, 4, generator=rng, dtype=torch.float64, requires_grad=True),
             "b": torch.randn(3, 5, generator=rng, dtype=torch.float64, requires_grad=True)}  # fmt: skip
    wanted = {
        name: torch.randn(tensor.shape[1:], generator=rng, dtype=torch.float64) for name, tensor in found.items()
    }
    flat = torch.cat([tensor.flatten(1) for tensor in found.values()], 1)
    own = torch.cat([tensor.flatten() for tensor in wanted.values()])
    far = distances.squared(found, wanted, {"a": 2.0, "b": 0.5})
    parts = [(found[name] - wanted[name]).square().flatten(1).sum(1) for name in found]
    torch.testing.assert_close(far, parts[0] / 2 + parts[1] * 2)
    angle = distances.cosine(found, wanted)
    composed = 1 - torch.nn.functional.cosine_similarity(flat, own[None])
    torch.testing.assert_close(angle, composed)
    weights = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)
    for ours, theirs in ((far, parts[0] / 2 + parts[1] * 2), (angle, composed)):
        slopes = [torch.autograd.grad(values @ weights, list(found.values()), retain_graph=True)
                  for values in (ours, theirs)]  # fmt: skip
        torch.testing.assert_close(*slopes)


def test_lbfgs_survives_infinite_values() -> None:
    found = minimise(lambda v, _: (v - 2).square().sum(1) + torch.where(v[:, 0] > 3, torch.inf, 0.0),
                     torch.tensor([[2.9]]), steps=30)  # fmt: skip
    assert float(found.unknowns) == pytest.approx(2, abs=1e-3)


def test_matching_is_the_best_of_all_orders() -> None:
    rng = torch.Generator().manual_seed(4)
    truth, restored = (torch.rand(5, 1, 3, 3, generator=rng) for _ in range(2))
    costs = {
        order: sum(float((restored[k] - truth[t]).square().sum()) for t, k in enumerate(order))
        for order in itertools.permutations(range(5))
    }
    assert tuple(match(restored, truth)) == min(costs, key=costs.get)


def test_psnr_and_ssim_are_the_textbook_formulas() -> None:
    rng = np.random.default_rng(0)
    a, b = (torch.from_numpy(rng.random((1, 16, 14))) for _ in range(2))
    error = float(((a - b) ** 2).mean())
    assert psnr(a, b) == pytest.approx(10 * np.log10(1 / error))
    assert psnr(a, a) == 100
    line = np.exp(-((np.arange(11) - 5) ** 2) / (2 * 1.5**2))
    window = np.outer(line, line) / line.sum() ** 2
    values = []
    for i in range(16 - 10):
        for j in range(14 - 10):
            x, y = (image[0, i : i + 11, j : j + 11].numpy() for image in (a, b))
            mx, my = (window * x).sum(), (window * y).sum()
            vx, vy = (window * (x - mx) ** 2).sum(), (window * (y - my) ** 2).sum()
            covariance = (window * (x - mx) * (y - my)).sum()
            top = (2 * mx * my + 1e-4) * (2 * covariance + 9e-4)
            values.append(top / ((mx**2 + my**2 + 1e-4) * (vx + vy + 9e-4)))
    assert ssim(a, b) == pytest.approx(np.mean(values), rel=1e-9)
    assert ssim(a, a) == pytest.approx(1)
    assert ssim(torch.zeros(4), torch.zeros(4)) is None


def test_what_softmax_regression_cannot_tell() -> None:
    """4 inputs, 3 classes: the gradient has 15 values of which each column sums to 0, so at most 10 are free."""
    task = tiny_task()
    stepper = Stepper(task, Numerics(precision="float64"))
    for count, undetermined in ((1, 0), (2, 0), (6, 24 - 10)):
        rows = list(range(count))
        target = Target.of_rows(stepper, stepper.state(), rows)
        found = null_space(target, target.inputs_of(rows), target.labels_of(rows))
        assert found.dimensions == 4 * count
        assert found.undetermined == undetermined


def test_the_null_space_is_that_of_a_jacobian_by_differences() -> None:
    target = target_of([5], "sigmoid-digits", precision="float64")
    unit, labels = target.inputs_of([5]), target.labels_of([5])
    gap = GradientGap(target.stepper, target.state)
    direction = torch.rand(1, *unit.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    step = 1e-6
    ahead, behind = (gap.gradient(unit + sign * step * direction[0], labels) for sign in (1, -1))
    expected = torch.cat([((ahead[name] - behind[name]) / (2 * step)).flatten() for name in ahead])
    torch.testing.assert_close(gap.along(unit, labels, direction)[0], expected, rtol=1e-4, atol=1e-7)
    with pytest.raises(UsageError, match="input values"):
        null_space(target, torch.zeros(9, 1, 28, 28), labels)

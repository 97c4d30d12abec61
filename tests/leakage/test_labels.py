"""Label restoration: every method against batches whose labels are known, the solver against exhaustive search."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from torch import nn

from tests.conftest import tiny_task
from trainwitness import Stepper, TaskSpec, build_task
from trainwitness.core.errors import UsageError
from trainwitness.leakage.labels import ilrg, pooled
from trainwitness.leakage.labels.final_layer import FinalLayer
from trainwitness.leakage.labels.metrics import cosine, counts_of, le_acc, ln_acc
from trainwitness.leakage.labels.restorer import NEED_AUXILIARY, RESTORERS, WITHOUT_BIAS, Auxiliary, restore
from trainwitness.leakage.labels.whole_counts import confidence, spread_of, whole_counts
from trainwitness.training.differentiable import GradientGap
from trainwitness.training.final_layer import final_pass, last_linear
from trainwitness.training.stepper import fetch

COUNTING = [name for name in RESTORERS if name not in WITHOUT_BIAS]


class Seen:
    """A batch of a digits task as an attacker sees it, with the truth beside."""

    def __init__(self, rows: list[int], *, steps: int = 0, name: str = "mlp-digits", **options: object) -> None:
        task = build_task(TaskSpec(name=name, options=options))
        stepper = Stepper(task)
        for step in range(steps):
            stepper.run(task.schedule.batch(step))
        state = stepper.state()
        _, last = last_linear(stepper.live.model)
        self.layer = FinalLayer.of(last.weight, last.bias)
        inputs, labels = fetch(task.dataset, rows, stepper.device, stepper.dtype)
        self.found = final_pass(stepper, state, inputs, labels)
        self.gradient = FinalLayer.of(self.found.weight, self.found.bias)
        self.truth = counts_of(labels.numpy(), self.layer.classes)
        inputs, labels = fetch(task.test, range(297), stepper.device, stepper.dtype)
        other = final_pass(stepper, state, inputs, labels)
        self.auxiliary = Auxiliary(other.embeddings.double().numpy(), labels.numpy())

    def restored(self, name: str):
        return restore(name, self.gradient, self.layer, int(self.truth.sum()), self.auxiliary)


@pytest.fixture(scope="module")
def untrained() -> Seen:
    return Seen(list(range(100, 124)), hidden=[300, 300])


@pytest.mark.parametrize("name", COUNTING)
def test_counts_of_an_untrained_model_are_exact(untrained: Seen, name: str) -> None:
    found = untrained.restored(name)
    assert np.array_equal(found.counts, untrained.truth)
    assert ln_acc(found, untrained.truth) == le_acc(found, untrained.truth) == 1
    assert found.confidence.min() > 0.9


@pytest.mark.parametrize("name", RESTORERS)
def test_one_example_has_one_label(name: str) -> None:
    seen = Seen([7])
    found = seen.restored(name)
    assert np.flatnonzero(found.present).tolist() == np.flatnonzero(seen.truth).tolist()


def test_presence_methods_do_not_count(untrained: Seen) -> None:
    for name in WITHOUT_BIAS:
        found = untrained.restored(name)
        assert found.counts is None
        assert ln_acc(found, untrained.truth) is None


def test_rlg_finds_the_classes_that_can_be_separated() -> None:
    """Class 2 lies between the others: whatever is positive at both is positive there."""
    small = Seen([0, 1, 2, 11])
    assert le_acc(small.restored("rlg"), small.truth) == 1
    points = np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]])
    found = restore("rlg", FinalLayer(points, None), FinalLayer(np.zeros((3, 2)), None), batch_size=2)
    assert found.present.tolist() == [True, True, False]


def test_a_trained_model_is_hard_and_likelihood_does_best() -> None:
    accuracies: dict[str, list[float]] = {name: [] for name in COUNTING}
    for first in range(0, 120, 24):
        seen = Seen(list(range(first, first + 24)), steps=300, learning_rate=0.1)
        for name, found in accuracies.items():
            found.append(ln_acc(seen.restored(name), seen.truth))
    means = {name: np.mean(found) for name, found in accuracies.items()}
    assert means["likelihood"] == max(means.values())
    assert means["likelihood"] > means["ilrg"] + 0.2


def test_auxiliary_methods_say_that_they_need_images(untrained: Seen) -> None:
    for name in NEED_AUXILIARY:
        with pytest.raises(UsageError, match="auxiliary images"):
            restore(name, untrained.gradient, untrained.layer, 24)


def test_without_a_bias_presence_is_restored_and_counting_says_what_is_missing() -> None:
    task = tiny_task(model=lambda: nn.Linear(4, 3, bias=False))
    stepper = Stepper(task)
    inputs, labels = fetch(task.dataset, [3], stepper.device, stepper.dtype)
    found = final_pass(stepper, stepper.state(), inputs, labels)
    layer = FinalLayer.of(stepper.live.model.weight, None)
    gradient = FinalLayer.of(found.weight, found.bias)
    for name in WITHOUT_BIAS:
        assert np.flatnonzero(restore(name, gradient, layer, 1).present).tolist() == [int(labels)]
    for name in ("ilrg", "pooled"):
        with pytest.raises(UsageError, match="no bias"):
            restore(name, gradient, layer, 1)


def test_a_single_logit_is_two_classes() -> None:
    loss = nn.functional.binary_cross_entropy_with_logits
    task = tiny_task(
        model=lambda: nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 1)),
        loss=lambda logits, labels: loss(logits.squeeze(1), (labels > 0).to(logits.dtype)),
    )
    stepper = Stepper(task)
    inputs, labels = fetch(task.dataset, range(10), stepper.device, stepper.dtype)
    found = final_pass(stepper, stepper.state(), inputs, labels)
    _, last = last_linear(stepper.live.model)
    layer, gradient = FinalLayer.of(last.weight, last.bias), FinalLayer.of(found.weight, found.bias)
    counts = restore("pooled", gradient, layer, 10).counts
    assert counts.tolist() == [int((labels == 0).sum()), int((labels > 0).sum())]


def test_the_last_layers_gradient_is_that_of_the_whole_loss() -> None:
    task = build_task("lenet-digits")
    stepper = Stepper(task)
    inputs, labels = fetch(task.dataset, range(300), stepper.device, stepper.dtype)
    state = stepper.state()
    whole = GradientGap(stepper, state).gradient(inputs, labels)
    name, _ = last_linear(stepper.live.model)
    found = final_pass(stepper, state, inputs, labels)
    torch.testing.assert_close(found.weight, whole[f"{name}.weight"], rtol=1e-4, atol=1e-7)
    torch.testing.assert_close(found.bias, whole[f"{name}.bias"], rtol=1e-4, atol=1e-7)
    with pytest.raises(UsageError, match="no linear layer"):
        last_linear(nn.Conv2d(1, 1, 1))


def test_one_embedding_comes_back_exactly() -> None:
    seen = Seen([5])
    truth = seen.found.embeddings.double().numpy()
    assert cosine(pooled.embedding(seen.gradient)[None], truth) == pytest.approx(1, abs=1e-6)
    assert cosine(ilrg.embeddings(seen.gradient), np.repeat(truth, 10, 0)) == pytest.approx(1, abs=1e-5)


def test_least_squares_is_the_pseudo_inverse(untrained: Seen) -> None:
    probabilities = untrained.layer.probabilities(ilrg.embeddings(untrained.gradient))
    system = np.vstack([probabilities.T - np.eye(10), np.ones(10)])
    expected = np.linalg.pinv(system) @ np.append(24 * untrained.gradient.bias, 24)
    np.testing.assert_allclose(untrained.restored("ilrg").estimate, expected, atol=1e-8)


def test_rows_of_classes_that_are_not_there_are_trusted_most() -> None:
    """Embeddings that differ by class: weights from first counts give more right counts than equal ones."""
    rng = np.random.default_rng(3)
    layer = FinalLayer(rng.normal(size=(20, 30)) * 0.05, rng.normal(size=20) * 0.1)
    means = 1 + 0.5 * rng.normal(size=(20, 30))
    plain, weighed = [], []
    for _ in range(20):
        labels = rng.choice(20, 300, p=rng.dirichlet(np.ones(20)))
        embeddings = means[labels]
        slopes = layer.probabilities(embeddings) - np.eye(20)[labels]
        seen = FinalLayer(slopes.T @ embeddings / 300, slopes.mean(0))
        truth = np.bincount(labels, minlength=20)
        equal = layer.probabilities(pooled.embedding(seen)) - seen.bias
        plain.append(np.abs(300 * equal - truth).mean())
        weighed.append(np.abs(pooled.restore(seen, layer, 300).estimate - truth).mean())
    assert np.mean(weighed) < 0.8 * np.mean(plain)


@pytest.mark.parametrize("certain", [0, 1, 2, 5])
def test_least_squares_of_any_probabilities_is_the_pseudo_inverse(certain: int) -> None:
    """Two certain classes or more leave a null vector; a noisy db does not sum to zero; some classes are left out."""
    rng = np.random.default_rng(certain)
    probabilities = rng.dirichlet(np.ones(6), 6)
    probabilities[:certain] = np.eye(6)[:certain]
    bias = rng.normal(size=6)
    for kept in (6, 4):
        system = np.vstack([probabilities[:kept, :kept].T - np.eye(kept), np.ones(kept)])
        expected = np.linalg.pinv(system) @ np.append(24 * bias[:kept], 24)
        found = ilrg._solve(probabilities[:kept, :kept], bias[:kept], 24)
        np.testing.assert_allclose(found, expected, atol=1e-8)


def test_known_presence_leaves_the_other_classes_at_zero(untrained: Seen) -> None:
    present = untrained.truth > 0
    found = ilrg.restore(untrained.gradient, untrained.layer, 24, present=present)
    assert found.counts.sum() == 24
    assert not found.counts[~present].any()


@pytest.mark.parametrize("seed", range(20))
def test_whole_counts_are_the_best_of_all(seed: int) -> None:
    rng = np.random.default_rng(seed)
    classes, total = int(rng.integers(1, 5)), int(rng.integers(0, 7))
    estimate, weights = rng.normal(1.5, 2, classes), rng.uniform(0.2, 3, classes)
    for w in (np.ones(classes), weights):
        found = whole_counts(estimate, total, w)
        assert found.sum() == total
        assert found.min() >= 0
        costs = [
            float((w * (np.array(k) - estimate) ** 2).sum())
            for k in itertools.product(range(total + 1), repeat=classes)
            if sum(k) == total
        ]
        assert float((w * (found - estimate) ** 2).sum()) == pytest.approx(min(costs), abs=1e-9)


def test_whole_counts_settle_ties_and_refuse_nonsense() -> None:
    assert whole_counts(np.array([0.5, 0.5, 0.5, 0.5]), 2).sum() == 2
    assert whole_counts(np.zeros(1000), 4096).sum() == 4096
    with pytest.raises(UsageError, match="no counts of 2 classes"):
        whole_counts(np.array([np.nan, 1.0]), 3)


@pytest.mark.parametrize("spread", [0.05, 0.15, 0.25])
def test_the_spread_is_seen_from_the_distance_to_whole_numbers(spread: float) -> None:
    rng = np.random.default_rng(1)
    truth = rng.integers(0, 60, 5000)
    estimate = truth + rng.normal(0, spread, 5000)
    assert spread_of(np.abs(estimate)) == pytest.approx(spread, abs=0.04)
    counts = np.rint(np.abs(estimate)).astype(np.int64)
    assert confidence(np.abs(estimate), counts).mean() == pytest.approx((counts == truth).mean(), abs=0.05)


def test_estimates_far_from_whole_numbers_are_not_trusted() -> None:
    estimate = np.random.default_rng(0).uniform(0, 20, 10)
    assert confidence(estimate, np.rint(estimate).astype(np.int64)).max() < 0.3
    assert np.isfinite(confidence(np.array([1e9, -1e9]), np.array([5, 0]))).all()


def test_bad_input_is_refused(untrained: Seen) -> None:
    with pytest.raises(UsageError, match="unknown method"):
        restore("magic", untrained.gradient, untrained.layer, 24)
    with pytest.raises(UsageError, match="last layer of"):
        restore("pooled", FinalLayer(np.zeros((3, 2)), None), untrained.layer, 24)
    with pytest.raises(UsageError, match="batch of 0"):
        restore("pooled", untrained.gradient, untrained.layer, 0)
    with pytest.raises(UsageError, match="not linear"):
        FinalLayer.of(torch.zeros(3), None)

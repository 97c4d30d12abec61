"""Tokens and their order from a transformer's gradient."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from trainwitness import Stepper, build_task
from trainwitness.core.errors import UsageError
from trainwitness.experiments.leaked_text import _invented
from trainwitness.leakage.inputs.target import Target
from trainwitness.leakage.text import UNKNOWN, dlg_tokens, embedded, ordered_tokens, tokens_present
from trainwitness.training.differentiable import GradientGap


@pytest.fixture(scope="module")
def stepper() -> Stepper:
    return Stepper(_invented())


@pytest.mark.parametrize("rows", [[0], [3, 4, 5]])
def test_the_tokens_of_a_batch_are_exact(stepper: Stepper, rows: list[int]) -> None:
    found = tokens_present(Target.of_rows(stepper, stepper.state(), rows))
    assert set(found.tolist()) == set(np.unique(stepper.task.dataset.inputs[rows]).tolist())


def test_one_examples_order_is_exact(stepper: Stepper) -> None:
    for row in range(5):
        found = ordered_tokens(Target.of_rows(stepper, stepper.state(), [row]))
        assert np.array_equal(found, stepper.task.dataset.inputs[row])


def test_repeated_words_are_placed(stepper: Stepper) -> None:
    target = Target.of_rows(stepper, stepper.state(), [0])
    ids = stepper.task.dataset.inputs[0].copy()
    ids[-4:] = [7, 9, 7, 9]
    gradient = GradientGap(stepper, target.state).gradient(torch.from_numpy(ids[None]), target.labels_of([0]))
    found = ordered_tokens(Target(stepper, target.state, gradient, 1))
    assert np.array_equal(found[-4:], ids[-4:])
    assert not (found == UNKNOWN).any()


def test_a_model_that_reads_embeddings_has_the_same_gradient(stepper: Stepper) -> None:
    target = Target.of_rows(stepper, stepper.state(), [2])
    moved = embedded(target)
    table = target.state.tensors["param/tokens.weight"]
    inputs = table[torch.from_numpy(stepper.task.dataset.inputs[[2]]).long()]
    found = GradientGap(moved.stepper, moved.state).gradient(inputs, target.labels_of([2]))
    for name, tensor in moved.gradient.items():
        torch.testing.assert_close(found[name], tensor, rtol=1e-4, atol=1e-6)


def test_dlg_on_embeddings_names_tokens_of_the_batch(stepper: Stepper) -> None:
    target = Target.of_rows(stepper, stepper.state(), [0])
    tokens, left = dlg_tokens(target, target.labels_of([0]), steps=5)
    assert tokens.shape == (1, 200)
    assert set(tokens.flatten().tolist()) <= set(tokens_present(target).tolist())
    assert left < 1


def test_images_have_no_tokens_and_batches_no_order(stepper: Stepper) -> None:
    images = Stepper(build_task("mlp-digits"))
    with pytest.raises(UsageError, match="no tokens"):
        tokens_present(Target.of_rows(images, images.state(), [0]))
    with pytest.raises(UsageError, match="one example"):
        ordered_tokens(Target.of_rows(stepper, stepper.state(), [0, 1]))
    with pytest.raises(UsageError, match="tokens cannot"):
        Target.of_rows(stepper, stepper.state(), [0]).gap()

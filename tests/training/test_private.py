"""DP-SGD in the step function: clipping, noise, and what stays reproducible."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from mpmath import mp
from torch import nn

from tests.conftest import tiny_task
from trainwitness import Numerics, ShuffledEpochs, Stepper, Task, TaskSpec, build_task, record, verify
from trainwitness.core.errors import UsageError
from trainwitness.core.seeds import derive, gaussian, random_bits
from trainwitness.core.verdict import Threshold
from trainwitness.forging.forge import attack
from trainwitness.forging.problem import make_problem
from trainwitness.tasks.task import Privacy
from trainwitness.training.per_example import PerExample
from trainwitness.training.vectorised import VectorisedSteps


def private_task(clip: float = 0.3, noise: float = 0.5, **changes: object) -> Task:
    return tiny_task(privacy=Privacy(clip, noise), **changes)


def by_hand(task: Task, stepper: Stepper) -> tuple[np.ndarray, np.ndarray]:
    """Clipped gradients [8, 15] of the first batch, and how long they were: softmax regression in numpy."""
    state = stepper.state()
    weight, bias = (state.tensors[f"param/{n}"].double().numpy() for n in ("weight", "bias"))
    rows = list(task.schedule.batch(0).rows[0])
    x, y = task.dataset.inputs[rows] / 255, task.dataset.labels[rows]
    z = x @ weight.T + bias
    d = np.exp(z) / np.exp(z).sum(1, keepdims=True) - np.eye(3)[y]
    single = np.concatenate([np.einsum("bi,bj->bij", d, x).reshape(8, -1), d], axis=1)
    lengths = np.sqrt((single**2).sum(1))
    return single * np.minimum(1, 0.3 / lengths)[:, None], lengths


def test_a_step_is_the_formula_by_hand() -> None:
    task = private_task()
    stepper = Stepper(task, Numerics(precision="float64"))
    single, lengths = by_hand(task, stepper)
    assert (lengths > 0.3).any()
    before = stepper.state()
    after = stepper(before, task.schedule.batch(0))
    noise = gaussian(derive(task.seed, "noise", 0), 15) * 0.5 * 0.3
    moved = 0.1 * (single.sum(0) + noise) / 8
    names = ("weight", "bias")
    expected = np.concatenate([before.tensors[f"param/{n}"].numpy().ravel() for n in names]) - moved
    found = np.concatenate([after.tensors[f"param/{n}"].numpy().ravel() for n in names])
    assert np.abs(found - expected).max() < 1e-15


def test_single_gradients_of_attacks_are_clipped_too() -> None:
    task = private_task()
    stepper = Stepper(task, Numerics(precision="float64"))
    found = PerExample(stepper, stepper.state()).matrix(list(task.schedule.batch(0).rows[0]))
    assert np.abs(found.numpy() - by_hand(task, stepper)[0]).max() < 1e-15


@pytest.mark.filterwarnings("ignore")
def test_clipping_is_that_of_opacus() -> None:
    opacus = pytest.importorskip("opacus")
    task = build_task(TaskSpec(name="lenet-digits", options={"clip": 0.5, "batch_size": 32}))
    stepper = Stepper(task)
    before, batch = stepper.state(), task.schedule.batch(0)
    after = stepper(before, batch)
    model = task.model()
    model.load_state_dict(dict(before.part("param")))
    wrapped = opacus.GradSampleModule(model)
    optimizer = opacus.optimizers.DPOptimizer(
        torch.optim.SGD(wrapped.parameters(), lr=0.01),
        noise_multiplier=0.0,
        max_grad_norm=0.5,
        expected_batch_size=32,
    )
    inputs, labels = task.dataset.fetch(batch.rows[0])
    nn.functional.cross_entropy(wrapped(task.dataset.prepare(inputs, torch.float32)), labels).backward()
    optimizer.step()
    for name, tensor in model.named_parameters():
        moved = (after.tensors[f"param/{name}"] - before.tensors[f"param/{name}"]).norm()
        gap = (tensor.detach() - after.tensors[f"param/{name}"]).norm()
        assert gap <= 1e-4 * moved + 1e-9, name


def test_micro_batches_and_loss_do_not_change_what_is_computed() -> None:
    whole, cut = (private_task(schedule=ShuffledEpochs(40, 8, 0.1, seed=0, accumulate=count)) for count in (1, 4))
    one, other = (Stepper(task, Numerics(precision="float64")) for task in (whole, cut))
    losses = [float(s.run(s.task.schedule.batch(0))) for s in (one, other)]
    plain = Stepper(tiny_task(), Numerics(precision="float64"))
    assert losses == pytest.approx([float(plain.run(whole.schedule.batch(0)))] * 2, rel=1e-12)
    for name, tensor in one.state().tensors.items():
        assert torch.allclose(tensor, other.state().tensors[name], atol=1e-15)


def test_a_private_trace_verifies_bit_for_bit_and_its_noise_is_not_free(tmp_path: Path) -> None:
    task = private_task()
    record(task, tmp_path / "t", steps=4)
    assert not VectorisedSteps.supports(Stepper(task))
    verdict = verify(tmp_path / "t", task=task)
    assert verdict.verdict == "ACCEPT"
    assert verdict.properties["exact"].standing == "established"
    other_noise = private_task(noise=0.6)
    assert verify(tmp_path / "t", task=other_noise, threshold=Threshold(value=1e-4)).verdict == "REJECT"


def test_noise_cancels_for_a_forger() -> None:
    """With the seed recorded, the error of a replaced example does not depend on the noise."""
    errors = []
    for noise in (0.0, 5.0):
        task = private_task(noise=noise)
        stepper = Stepper(task, Numerics(precision="float64"))
        before, batch = stepper.state(), task.schedule.batch(0)
        problem = make_problem(stepper, before, stepper(before, batch), batch, positions=[2])
        errors.append(attack(problem, "swap-search").error)
    assert errors[0] == pytest.approx(errors[1], rel=1e-9)


def test_what_cannot_be_private_is_refused() -> None:
    with pytest.raises(UsageError, match="mixed precision"):
        Stepper(private_task(), Numerics(precision="bfloat16"))
    norm = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3))
    with pytest.raises(UsageError, match="batch norm"):
        Stepper(private_task(model=lambda: norm))
    with pytest.raises(UsageError, match=r"clip=0\.0 with noise=1\.0"):
        build_task(TaskSpec(name="softmax-digits", options={"noise": 1.0}))
    task = private_task()
    stepper = Stepper(task)
    before, batch = stepper.state(), task.schedule.batch(0)
    problem = make_problem(stepper, before, stepper(before, batch), batch, positions=[2])
    with pytest.raises(UsageError, match="clips single gradients"):
        attack(problem, "optimise")


def test_gaussian_words_are_normal_and_stable() -> None:
    from scipy.stats import kstest

    values = gaussian(3, 100_001)
    assert len(values) == 100_001
    assert kstest(values, "norm").pvalue > 0.001
    assert np.isfinite(values).all()
    words = [int(word) >> 11 for word in random_bits(3, 6)]
    for k in range(3):  # Box and Muller with 30 digits
        radius = mp.sqrt(-2 * mp.log(mp.mpf(words[k] + 1) / 2**53))
        angle = 2 * mp.pi * words[3 + k] / 2**53
        expected = float(radius * mp.cos(angle)), float(radius * mp.sin(angle))
        found = gaussian(3, 6)
        assert (found[k], found[3 + k]) == pytest.approx(expected, rel=1e-12, abs=1e-13)

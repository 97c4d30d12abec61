"""Thresholds with a reason: what each policy allows, and what it cannot be talked into."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.verification.forgery import Forgery
from trainwitness import Calibration, Numerics, Stepper, TaskSpec, build_task, calibrate, record, verify
from trainwitness.core.errors import UsageError
from trainwitness.core.verdict import FalseRejection
from trainwitness.verification.policies.adaptive import Adaptive
from trainwitness.verification.policies.extreme import Extreme, noisiest, tail_quantile
from trainwitness.verification.policies.fixed import Fixed
from trainwitness.verification.policies.largest import Largest
from trainwitness.verification.policies.policy import named_policy


@pytest.fixture(scope="module")
def calibration() -> Calibration:
    return calibrate(build_task(TaskSpec(name="mlp-digits", options={"momentum": 0.9})), steps=50)


def test_fixed_and_largest(calibration: Calibration) -> None:
    assert Fixed(1e-6).threshold().value == 1e-6
    assert Fixed(1e-6).threshold().false_rejection is None
    largest = Largest(calibration, 4.0).threshold()
    assert largest.value == pytest.approx(4 * calibration.eps_repr)
    assert largest.optimizer == pytest.approx(4 * max(s.optimizer for s in calibration.samples))
    assert largest.buffers == 0  # there are none
    with pytest.raises(UsageError, match="margin"):
        Largest(calibration, 0.5)


@pytest.mark.parametrize("spread", [0.2, 0.5, 1.0])
def test_the_extreme_quantile_covers_what_was_not_seen(spread: float) -> None:
    """Log-normal errors, 450 seen: 1,000-step traces of the same kind are rejected in about the stated share."""
    rng = np.random.default_rng(0)
    rejected = []
    for _ in range(40):
        limit = tail_quantile(np.exp(rng.normal(-18, spread, 450)), 0.01 / 1000)
        traces = np.exp(rng.normal(-18, spread, (50, 1000)).max(axis=1))
        rejected.append(float((traces > limit).mean()))
    assert np.mean(rejected) <= 0.02
    assert np.median(rejected) <= 0.01


def test_the_extreme_quantile_is_not_absurd() -> None:
    rng = np.random.default_rng(1)
    errors = np.exp(rng.normal(-18, 0.5, 450))
    true_quantile = np.exp(-18 + 0.5 * 4.26)  # 1e-5 of a normal is above 4.26 standard deviations
    assert true_quantile / 2 < tail_quantile(errors, 1e-5) < 100 * true_quantile
    assert tail_quantile(np.zeros(0), 1e-5) == 0
    assert tail_quantile(np.full(5, 1e-8), 1e-5) >= 1e-8


def test_quiet_sources_do_not_thin_the_tail() -> None:
    loud, quiet = np.full(10, 1e-7), np.full(1000, 1e-12)
    assert set(noisiest([loud, quiet, np.zeros(50)])) == {1e-7}
    assert len(noisiest([np.zeros(3)])) == 0


def test_policies_state_their_false_rejections(calibration: Calibration) -> None:
    rejection = Extreme(calibration, 0.01).threshold().false_rejection
    samples = sum(len(errors) for errors in calibration.errors().values())
    assert rejection == FalseRejection(
        stated=0.01, steps=1000, held_out=samples, held_out_above=0, horizon=calibration.horizon
    )
    tight = Extreme(calibration, 0.5).threshold().value
    assert tight < Extreme(calibration, 0.001).threshold().value
    for wrong in (0, 1, -1):
        with pytest.raises(UsageError, match="false-rejection rate"):
            Extreme(calibration, wrong)


def test_policies_by_name(calibration: Calibration) -> None:
    assert isinstance(named_policy("adaptive:0.001", calibration), Adaptive)
    assert named_policy("largest:7", calibration) == Largest(calibration, 7.0)
    for wrong, message in (("strict", "unknown policy"), ("largest:x", "not a number")):
        with pytest.raises(UsageError, match=message):
            named_policy(wrong, calibration)


def test_a_step_that_is_noisy_on_purpose_gets_no_more_than_the_cap(calibration: Calibration, tmp_path: Path) -> None:
    """The owner scales the weights up: rounding noise grows with them, and the step hides an error in it."""
    spec = TaskSpec(name="mlp-digits", options={"momentum": 0.9})
    task = build_task(spec)
    record(task, tmp_path / "t", steps=4)
    forged, stepper = Forgery(tmp_path / "t"), Stepper(task)
    for name in [n for n in forged.states[2].tensors if n.startswith("param/")]:
        forged.set(2, name, forged.states[2].tensors[name] * 1e4)
    for step in (2, 3):
        forged.states[step + 1] = stepper(forged.states[step], task.schedule.batch(step))
    name = "param/1.weight"
    forged.set(3, name, forged.states[3].tensors[name] + 1e-5 * torch.sign(forged.states[3].tensors[name]))
    verdict = verify(forged.write(tmp_path / "f"), calibration=calibration, policy="adaptive")
    cap = Extreme(calibration).threshold().value
    noisy = verdict.steps[2]
    assert noisy.limit is not None
    assert noisy.limit > cap  # its own scale would have allowed more
    assert noisy.l2 > cap
    assert verdict.verdict == "REJECT"
    assert verdict.threshold is not None
    assert verdict.threshold.value == cap


def test_a_quiet_step_is_judged_on_its_own_scale(calibration: Calibration, tmp_path: Path) -> None:
    """Small weights have small rounding errors: what the trace-wide threshold lets pass there is found."""
    task = build_task(TaskSpec(name="mlp-digits", options={"momentum": 0.9}))
    record(task, tmp_path / "t", steps=4)
    forged, stepper = Forgery(tmp_path / "t"), Stepper(task)
    for name in [n for n in forged.states[2].tensors if n.startswith(("param/", "optim/"))]:
        forged.set(2, name, forged.states[2].tensors[name] * 1e-3)
    for step in (2, 3):
        forged.states[step + 1] = stepper(forged.states[step], task.schedule.batch(step))
    cap = Extreme(calibration).threshold().value
    bias = forged.states[4].tensors["param/3.bias"].clone()
    bias[0] += cap / 2
    forged.set(4, "param/3.bias", bias)
    forged.write(tmp_path / "f")
    plain = verify(tmp_path / "f", calibration=calibration, policy="extreme")
    own = verify(tmp_path / "f", calibration=calibration, policy="adaptive")
    assert not any("step 3" in reason for reason in plain.reasons)
    assert any("step 3" in reason for reason in own.reasons)
    quiet = own.steps[3]
    assert quiet.limit is not None
    assert quiet.limit < quiet.l2 < cap


def test_jumps_are_explained_by_near_ties_and_only_by_them(tmp_path: Path) -> None:
    """Traces of other kernels jump; an error of the same size in a step without ties does not pass."""
    task = build_task(TaskSpec(name="lenet-digits", options={"seed": 3}))
    calibration = calibrate(build_task("lenet-digits"), steps=20)
    record(task, tmp_path / "t", steps=30, numerics=Numerics(threads=1, onednn=False))
    verdict = verify(tmp_path / "t", calibration=calibration, numerics=Numerics())
    assert verdict.verdict == "ACCEPT", verdict.reasons
    assert verdict.threshold is not None
    jumped = [error for error in verdict.steps if error.l2 > verdict.threshold.value]
    assert jumped  # this seed has some; without them the test says nothing
    assert all(error.rest_of_jump is not None for error in jumped)
    assert all((error.rest_of_jump or 0) <= verdict.threshold.value for error in jumped)
    assert all(error.l2 <= (verdict.threshold.jumps or 0) for error in jumped)
    largest = max(error.l2 for error in jumped)
    calm = next(error.step for error in verdict.steps if error not in jumped and error.step > 10)
    forged = Forgery(tmp_path / "t")
    name = "param/0.weight"
    moved = forged.states[calm + 1].tensors[name].clone()
    moved.view(-1)[0] += largest
    forged.set(calm + 1, name, moved)
    caught = verify(forged.write(tmp_path / "f"), calibration=calibration, numerics=Numerics())
    assert caught.verdict == "REJECT"
    assert any(f"step {calm}:" in reason for reason in caught.reasons)


def test_an_error_of_the_same_size_in_a_step_with_ties_is_still_found(tmp_path: Path) -> None:
    """Ties excuse their own directions, not any direction: a random error in the very step that jumps is refuted."""
    task = build_task(TaskSpec(name="lenet-digits", options={"seed": 3}))
    calibration = calibrate(build_task("lenet-digits"), steps=20)
    record(task, tmp_path / "t", steps=30, numerics=Numerics(threads=1, onednn=False))
    honest = verify(tmp_path / "t", calibration=calibration, numerics=Numerics())
    jumps = [error for error in honest.steps if error.rest_of_jump is not None]
    forged, generator = Forgery(tmp_path / "t"), torch.Generator().manual_seed(0)
    for error in jumps:
        tensors = forged.states[error.step + 1].part("param")
        noise = {n: torch.randn(t.shape, generator=generator) for n, t in tensors.items()}
        size = sum(float(v.square().sum()) for v in noise.values()) ** 0.5
        for name, tensor in tensors.items():
            forged.set(error.step + 1, f"param/{name}", tensor + noise[name] * (error.l2 / size))
    caught = verify(forged.write(tmp_path / "f"), calibration=calibration, numerics=Numerics())
    assert caught.verdict == "REJECT"
    assert all(caught.steps[error.step].rest_of_jump is None for error in jumps)


@pytest.mark.parametrize("options", [{"optimizer": "adam", "learning_rate": 1e-3}, {"momentum": 0.9}])
def test_jumps_in_the_optimiser_are_carried_on(tmp_path: Path, options: dict[str, Any]) -> None:
    """After a tie fell the other way, momentum and moments differ for a while: the verifier's own follow."""
    calibration = calibrate(build_task(TaskSpec(name="lenet-digits", options=options)), steps=25)
    task = build_task(TaskSpec(name="lenet-digits", options={**options, "seed": 3}))
    record(task, tmp_path / "t", steps=25, numerics=Numerics(threads=1, onednn=False))
    verdict = verify(tmp_path / "t", calibration=calibration, numerics=Numerics())
    assert verdict.verdict == "ACCEPT", verdict.reasons


def test_no_policy_allows_more_than_a_share_of_the_update(calibration: Calibration) -> None:
    loud = [s._replace(l2=s.update * 0.04, optimizer=0.9) for s in calibration.samples]
    crazy = calibration.model_copy(update={"samples": loud, "eps_repr": max(s.l2 for s in loud)})
    update = float(np.median([s.update for s in loud]))
    for policy in (Largest(crazy, 100.0), Extreme(crazy)):
        threshold = policy.threshold()
        assert threshold.value <= max(0.05 * update, crazy.eps_repr)
        assert threshold.optimizer == 0.05


def test_a_longer_trace_gets_a_wider_threshold(calibration: Calibration) -> None:
    short, long = (named_policy("extreme", calibration, steps).threshold() for steps in (1000, 100_000))
    assert short.value < long.value
    assert long.false_rejection is not None
    assert long.false_rejection.steps == 100_000

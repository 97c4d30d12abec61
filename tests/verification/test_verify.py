"""Verdicts on honest traces, and on traces made by people who know how verification works."""

from __future__ import annotations

import base64
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from tests.conftest import tiny_task
from tests.verification.forgery import ADAM, EPS, MOMENTUM, NORMED, Forgery, normed, standings
from trainwitness import Dataset, Numerics, Recorder, State, Stepper, Task, Threshold, Trace, record, verify
from trainwitness.core.errors import DataDamaged, StorageError, TraceMismatch, UsageError
from trainwitness.core.verdict import PROPERTIES
from trainwitness.tasks.schedule import ShuffledEpochs
from trainwitness.trace.format import StepRecord
from trainwitness.trace.rewrite import rewrite


@pytest.mark.parametrize("changes", [{}, MOMENTUM, ADAM, NORMED], ids=["sgd", "momentum", "adam", "norm-and-dropout"])
def test_an_honest_trace_is_accepted_with_no_threshold_at_all(honest: Any, changes: dict[str, Any]) -> None:
    task, path = honest(**changes)
    verdict = verify(path, task=task)
    assert verdict.verdict == "ACCEPT"
    assert standings(verdict) == dict.fromkeys(PROPERTIES, "established") | {
        "data_committed": "unknown", "model_bound": "unknown", "forgery_margin": "unknown",
    }  # fmt: skip
    assert [error.step for error in verdict.steps] == list(range(8))
    assert verdict.max_l2 == 0
    assert verdict.step_root == Trace.open(path).check().step_root


def test_errors_equal_an_independent_computation(honest: Any, tmp_path: Path) -> None:
    """The l2, linf and relative error of a foreign batch, from the formula in numpy."""
    task, path = honest()
    forged = Forgery(path)
    forged.records[3] = forged.records[3].model_copy(update={"rows": [[0, 1, 2, 3, 4, 5, 6, 7]]})
    verdict = verify(forged.write(tmp_path / "f"), task=task, threshold=EPS, one_by_one=True)
    before, after = (forged.states[k].tensors for k in (3, 4))
    weight, bias = before["param/weight"].double().numpy(), before["param/bias"].double().numpy()
    x, y = task.dataset.inputs[:8] / 255, task.dataset.labels[:8]
    z = x @ weight.T + bias
    d = np.exp(z) / np.exp(z).sum(1, keepdims=True) - np.eye(3)[y]
    new = np.concatenate([(weight - 0.1 * d.T @ x / 8).ravel(), bias - 0.1 * d.mean(0)])
    stored = np.concatenate([after["param/weight"].double().numpy().ravel(), after["param/bias"].double().numpy()])
    old = np.concatenate([weight.ravel(), bias])
    error = verdict.steps[3]
    assert error.l2 == pytest.approx(np.linalg.norm(new - stored), rel=1e-5)
    assert error.linf == pytest.approx(np.abs(new - stored).max(), rel=1e-4)
    assert error.relative == pytest.approx(np.linalg.norm(new - stored) / np.linalg.norm(stored - old), rel=1e-5)
    assert verdict.max_l2 == error.l2
    assert verdict.verdict == "REJECT"
    assert [e.step for e in verdict.steps if e.l2] == [3]  # goes on past the bad step, and finds no other


def test_a_threshold_decides_between_benign_and_not(honest: Any) -> None:
    task, path = honest()
    other = Numerics(precision="float64")
    errors = verify(path, task=task, numerics=other)
    assert errors.verdict == "INCONCLUSIVE"
    assert 0 < errors.max_l2 < 1e-6
    assert verify(path, task=task, numerics=other, threshold=Threshold(value=errors.max_l2)).verdict == "ACCEPT"
    tight = verify(path, task=task, numerics=other, threshold=Threshold(value=errors.max_l2 * 0.99))
    assert tight.verdict == "REJECT"
    assert standings(tight)["reproduced"] == "refuted"


def test_float64_splits_the_error_into_rounding_and_rest(honest: Any) -> None:
    task, path = honest()
    verdict = verify(path, task=task, numerics=Numerics(precision="float64"))
    trace = Trace.open(path)
    for segment, error in zip(trace.segments(), verdict.steps, strict=True):
        exact = Stepper(task, Numerics(precision="float64"))
        exact.load(State({n: t.double() for n, t in segment.before.tensors.items()}))
        exact.run(segment.batches[0])
        new = torch.cat([t.flatten() for t in exact.state().part("param").values()])
        stored = torch.cat([t.flatten() for t in segment.after.part("param").values()])
        assert error.rounding == pytest.approx(float((new.float().double() - new).norm()), rel=1e-9)
        assert error.rest == pytest.approx(
            float((stored.double() - new.float().double()).norm()), rel=1e-9, abs=1e-15
        )
        assert error.l2 <= error.rounding + error.rest + 1e-15


@pytest.mark.parametrize("precision", ["float16", "bfloat16"])
def test_mixed_precision_traces_verify(tmp_path: Path, precision: str) -> None:
    task = tiny_task()
    record(task, tmp_path / "t", steps=5, numerics=Numerics(precision=precision))  # type: ignore[arg-type]
    assert verify(tmp_path / "t", task=task).verdict == "ACCEPT"
    verdict = verify(
        tmp_path / "t", task=task, numerics=Numerics(precision="float32"), threshold=Threshold(value=1e-2)
    )
    assert verdict.verdict == "ACCEPT"
    assert verdict.max_l2 > 1e-7


# ---------------------------------------------------------------------- nothing goes unchecked


def test_a_crafted_momentum_cannot_walk_to_arbitrary_weights(honest: Any, tmp_path: Path) -> None:
    """The attack on public verifiers: one momentum buffer that carries the weights wherever the owner wants."""
    task, path = honest(**MOMENTUM)
    rate = task.schedule.learning_rate(0)
    for number in (0, 4):
        forged = Forgery(path)
        stepper = Stepper(task)
        stepper.load(forged.states[number])
        for name in ("weight", "bias"):
            start = forged.states[number].tensors[f"param/{name}"]
            target = torch.full_like(start, 7.0)  # the weights the owner wants to have "trained"
            forged.set(number, f"optim/{name}/momentum_buffer", (start - target) / rate / 0.9)
        forged.states[number + 1] = stepper(forged.states[number], task.schedule.batch(number))
        assert (forged.states[number + 1].tensors["param/weight"] - 7).abs().max() < 0.1  # the walk works
        for later in range(number + 1, 8):
            forged.states[later + 1] = stepper(forged.states[later], task.schedule.batch(later))
        verdict = verify(forged.write(tmp_path / f"f{number}"), task=task, threshold=EPS, one_by_one=True)
        assert verdict.verdict == "REJECT"
        if number == 0:
            assert verdict.steps[0].l2 > 1  # the verifier's own optimiser was empty
            assert standings(verdict)["initialised"] == "refuted"
            assert "was not empty" in verdict.properties["initialised"].why
        else:
            assert verdict.steps[number - 1].optimizer > 0.9
            assert [error.step for error in verdict.steps if not error.exact] == [number - 1]
            assert standings(verdict)["reproduced"] == "refuted"


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        (MOMENTUM, "optim/weight/momentum_buffer"),
        (ADAM, "optim/weight/exp_avg"),
        (ADAM, "optim/weight/exp_avg_sq"),
        (ADAM, "optim/weight/step"),
        (NORMED, "buffer/1.running_mean"),
        (NORMED, "buffer/1.running_var"),
        (NORMED, "buffer/1.num_batches_tracked"),
        ({}, "param/weight"),
        ({}, "param/bias"),
    ],
)
def test_any_altered_part_of_any_state_is_found(
    honest: Any, tmp_path: Path, changes: dict[str, Any], name: str
) -> None:
    task, path = honest(steps=4, **changes)
    for number in range(1, 5):
        forged = Forgery(path)
        tensor = forged.states[number].tensors[name].clone()
        flat = tensor.view(-1)
        flat[0] += max(float(flat[0].abs()) * 0.05, 0.01) if tensor.is_floating_point() else 1
        if name.endswith("/step"):
            flat[0] = math.ceil(flat[0])
        forged.set(number, name, tensor)
        verdict = verify(forged.write(tmp_path / f"f{number}"), task=task, threshold=EPS)
        assert verdict.verdict == "REJECT", number
        assert not verdict.steps[number - 1].exact


@pytest.mark.parametrize("missing", ["optim/weight/momentum_buffer", "param/bias"])
def test_a_missing_tensor_is_found_or_named(honest: Any, tmp_path: Path, missing: str) -> None:
    task, path = honest(**MOMENTUM)
    forged = Forgery(path)
    forged.states[8] = State({n: t for n, t in forged.states[8].tensors.items() if n != missing})
    verdict = verify(forged.write(tmp_path / "f"), task=task, threshold=EPS)
    assert verdict.verdict == "REJECT"
    assert missing in verdict.steps[7].problems[0]


def test_a_scaler_that_does_not_follow_is_found(tmp_path: Path) -> None:
    task = tiny_task()
    record(task, tmp_path / "t", steps=3, numerics=Numerics(precision="float16"))
    for number, standing in ((0, "initialised"), (2, "reproduced")):
        forged = Forgery(tmp_path / "t")
        forged.set(number, "scaler/scale", torch.tensor(2.0, dtype=torch.float64))
        verdict = verify(forged.write(tmp_path / f"f{number}"), task=task, threshold=Threshold(value=1e-3))
        assert verdict.verdict == "REJECT"
        assert standings(verdict)[standing] == "refuted"


def test_another_seed_means_another_dropout_and_another_start(honest: Any, tmp_path: Path) -> None:
    task, path = honest(**NORMED)
    forged = Forgery(path)
    forged.manifest = forged.manifest.model_copy(update={"seed": 1})
    with pytest.raises(TraceMismatch, match="seed 1"):
        verify(forged.write(tmp_path / "f"), task=task, threshold=EPS)
    other = tiny_task(**NORMED, seed=1)
    verdict = verify(tmp_path / "f", task=other, threshold=EPS)
    assert verdict.verdict == "REJECT"
    assert standings(verdict)["initialised"] == "refuted"
    assert all(error.l2 > 1e-6 for error in verdict.steps)


def test_a_substituted_initialisation_is_found(honest: Any, tmp_path: Path) -> None:
    """The owner starts from weights of his own, and trains honestly from there."""
    task, path = honest()
    forged, stepper = Forgery(path), Stepper(task)
    forged.set(0, "param/weight", forged.states[0].tensors["param/weight"] * 1.0000001)
    for step in range(8):
        forged.states[step + 1] = stepper(forged.states[step], task.schedule.batch(step))
    verdict = verify(forged.write(tmp_path / "f"), task=task, threshold=EPS, one_by_one=True)
    assert verdict.max_l2 == 0
    assert verdict.verdict == "REJECT"
    assert standings(verdict)["initialised"] == "refuted"


def test_a_learning_rate_of_the_owners_own_is_found(honest: Any, tmp_path: Path) -> None:
    task, path = honest()
    forged = Forgery(path)
    fast = tiny_task(schedule=ShuffledEpochs(40, 8, 0.5, seed=0))
    stepper = Stepper(fast)
    for step in range(8):
        forged.states[step + 1] = stepper(forged.states[step], fast.schedule.batch(step))
    verdict = verify(forged.write(tmp_path / "silent"), task=task, threshold=EPS)
    assert standings(verdict)["reproduced"] == "refuted"
    forged.records = [r.model_copy(update={"groups": [r.groups[0] | {"lr": 0.5}]}) for r in forged.records]
    verdict = verify(forged.write(tmp_path / "stated"), task=task, threshold=EPS)
    assert verdict.verdict == "REJECT"
    assert "learning rate 0.5" in verdict.properties["scheduled"].why


@pytest.mark.parametrize("setting", [{"weight_decay": 0.1}, {"momentum": 0.5}, {"maximize": True}])
def test_other_optimiser_settings_are_found(honest: Any, tmp_path: Path, setting: dict[str, Any]) -> None:
    task, path = honest()
    rewrite(Trace.open(path), tmp_path / "f", lambda r: r.model_copy(update={"groups": [r.groups[0] | setting]}))
    verdict = verify(tmp_path / "f", task=task, threshold=EPS)
    assert standings(verdict)["scheduled"] == "refuted"
    assert verdict.verdict == "REJECT"


def test_another_order_of_rows_is_found_even_if_it_reproduces(honest: Any, tmp_path: Path) -> None:
    """Data ordering is an attack of its own: the steps are honest, their order was chosen."""
    task, path = honest()
    forged, stepper = Forgery(path), Stepper(task)
    for step in range(8):
        batch = task.schedule.batch(7 - step)
        record_here = forged.records[step].model_copy(update={"rows": [list(batch.rows[0])]})
        forged.records[step] = record_here
        forged.states[step + 1] = stepper(
            forged.states[step], type(batch)(step=step, epoch=record_here.epoch, rows=batch.rows)
        )
    verdict = verify(forged.write(tmp_path / "f"), task=task, threshold=EPS, one_by_one=True)
    assert (verdict.max_l2, verdict.verdict) == (0, "REJECT")
    assert standings(verdict)["scheduled"] == "refuted"


@pytest.mark.parametrize("rows", [[[0, 40]], [[10**15]], [[]], [[1], []]])
def test_rows_that_do_not_exist_are_named(honest: Any, tmp_path: Path, rows: list[list[int]]) -> None:
    task, path = honest()
    edit = lambda r: r.model_copy(update={"rows": rows}) if r.step == 2 else r  # noqa: E731
    rewrite(Trace.open(path), tmp_path / "f", edit)
    verdict = verify(tmp_path / "f", task=task, threshold=EPS)
    assert verdict.verdict == "REJECT"
    assert verdict.steps[2].problems
    assert math.isinf(verdict.steps[2].l2)
    assert len(verdict.steps) == 8


def carry(task: Task, content: bytes) -> Callable[[StepRecord], StepRecord]:
    text = base64.b64encode(content).decode()
    return lambda r: r.model_copy(update={"carried": {"1": text}}) if r.step == 2 else r


def test_carried_rows_inside_and_outside_the_domain(honest: Any, tmp_path: Path) -> None:
    task, path = honest()
    trace = Trace.open(path)
    own = task.schedule.batch(2).rows[0][1]
    bad_label = Dataset("x", task.dataset.inputs, np.full(40, 9)).row(0)
    cases = {
        "same": (task.dataset.row(own), "ACCEPT", "established", ""),
        "other": (task.dataset.row((own + 1) % 40), "REJECT", "refuted", "1 rows are carried"),
        "outside": (bad_label, "REJECT", "refuted", "outside the domain"),
        "garbage": (b"garbage", "REJECT", "refuted", "is no row of this data set"),
    }
    for name, (content, answer, standing, words) in cases.items():
        rewrite(trace, tmp_path / name, carry(task, content))
        verdict = verify(tmp_path / name, task=task, threshold=EPS)
        assert (verdict.verdict, standings(verdict)["data_matches"]) == (answer, standing), name
        assert words in " ".join(verdict.reasons)


def altered_data(task: Task, **changes: Any) -> Task:
    inputs = task.dataset.inputs.copy()
    inputs[5, 0] ^= 1
    return tiny_task(dataset=Dataset("tiny", inputs, task.dataset.labels, task.dataset.domain, task.dataset.prepare))


def test_data_that_is_not_the_traces_is_told(honest: Any) -> None:
    task, path = honest()
    verdict = verify(path, task=altered_data(task), threshold=EPS)
    assert verdict.verdict == "REJECT"
    assert standings(verdict)["data_matches"] == "refuted"
    assert "this copy" in verdict.properties["data_matches"].why


def test_a_damaged_copy_of_a_published_data_set_is_the_verifiers_own_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from trainwitness import build_task
    from trainwitness.tasks.data import digits

    record(build_task("softmax-digits"), tmp_path / "t", steps=3)
    assert verify(tmp_path / "t").verdict == "ACCEPT"
    original = digits.load

    def damaged(data: Path | None = None) -> tuple[Dataset, Dataset]:
        train, test = original(data)
        pixels = train.inputs.copy()
        pixels[0, 0, 0, 0] ^= 1
        return Dataset(train.name, pixels, train.labels, train.domain, train.prepare), test

    monkeypatch.setattr(digits, "load", damaged)
    with pytest.raises(DataDamaged, match="the copy here is damaged"):
        verify(tmp_path / "t")
    record(build_task("softmax-digits"), tmp_path / "lying", steps=3)  # an owner who trained on other data
    monkeypatch.setattr(digits, "load", original)
    verdict = verify(tmp_path / "lying", threshold=EPS)
    assert verdict.verdict == "REJECT"
    assert "the published digits" in verdict.properties["data_matches"].why


@pytest.mark.real_data
def test_published_roots_are_those_of_the_data(data_folder: Path) -> None:
    from trainwitness import build_task
    from trainwitness.tasks.data.known import KNOWN_ROOTS
    from trainwitness.trace.record import dataset_facts

    names = ("fcn-adult", "softmax-cifar10", "softmax-digits", "transformer-imdb", "softmax-mnist")
    roots = [dataset_facts(build_task(name, data=data_folder).dataset).root for name in names]
    assert roots == list(KNOWN_ROOTS.values())


# ---------------------------------------------------------------------- what is not established is said


def test_a_users_loop_that_says_nothing_gets_unknown(tmp_path: Path) -> None:
    generator = torch.Generator().manual_seed(0)
    x, y = torch.randn(24, 4, generator=generator), torch.randint(0, 3, (24,), generator=generator)
    torch.manual_seed(5)
    model = normed()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    with Recorder(tmp_path / "t", model=model, optimizer=optimizer) as recorder:
        for inputs, labels in recorder.loader(DataLoader(TensorDataset(x, y), batch_size=4, shuffle=True)):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(inputs), labels).backward()
            optimizer.step()
    task = Task(
        model=normed,
        dataset=Dataset("loop", x.numpy(), y.numpy()),
        loss=nn.functional.cross_entropy,
        optimizer=lambda p, lr: torch.optim.Adam(p, lr=lr),
        schedule=ShuffledEpochs(24, 4, 0.05, seed=0),
    )
    verdict = verify(tmp_path / "t", task=task)
    assert verdict.verdict == "ACCEPT"
    assert standings(verdict) == {
        "reproduced": "established", "exact": "established", "initialised": "unknown", "scheduled": "unknown",
        "data_matches": "established", "data_committed": "unknown", "model_bound": "unknown",
        "forgery_margin": "unknown",
    }  # fmt: skip
    strict = verify(tmp_path / "t", task=task, require=("reproduced", "initialised"))
    assert strict.verdict == "INCONCLUSIVE"
    assert "initialised is required" in strict.reasons[0]
    with pytest.raises(UsageError, match="a loop of its own"):
        verify(tmp_path / "t")


def test_part_of_a_trace_and_unsealed_traces_are_at_most_inconclusive(honest: Any, tmp_path: Path) -> None:
    task, path = honest()
    part = verify(path, task=task, steps=(2, 5), threshold=EPS)
    assert part.verdict == "INCONCLUSIVE"
    assert [error.step for error in part.steps] == [2, 3, 4]
    assert "only steps 2:5 of 8" in part.reasons[0]
    forged = Forgery(path)
    forged.set(4, "param/weight", forged.states[4].tensors["param/weight"] + 1)
    assert verify(forged.write(tmp_path / "f"), task=task, steps=(2, 5), threshold=EPS).verdict == "REJECT"
    assert verify(tmp_path / "f", task=task, steps=(6, 8), threshold=EPS).verdict == "INCONCLUSIVE"
    (path / "seal.json").unlink()
    unsealed = verify(path, task=task)
    assert unsealed.verdict == "INCONCLUSIVE"
    assert "unsealed" in unsealed.reasons[0]


@pytest.mark.parametrize("every", [2, 3])
def test_sparse_checkpoints_are_judged_by_the_errors_of_several_steps(tmp_path: Path, every: int) -> None:
    task = tiny_task(**MOMENTUM)
    record(task, tmp_path / "t", steps=8, checkpoint_every=every)
    verdict = verify(tmp_path / "t", task=task)
    assert verdict.verdict == "ACCEPT"
    assert len(verdict.steps) == math.ceil(8 / every)
    swap = lambda r: r.model_copy(update={"rows": [[0, *r.rows[0][1:]]]}) if r.step == 3 else r  # noqa: E731
    rewrite(Trace.open(tmp_path / "t"), tmp_path / "f", swap)
    assert verify(tmp_path / "f", task=task, threshold=EPS).verdict == "REJECT"


def test_the_model_file_is_bound_to_the_final_state(honest: Any, tmp_path: Path) -> None:
    from safetensors.torch import save_file

    task, path = honest(**NORMED)
    final = Trace.open(path).final_state()
    tensors = {**final.part("param"), **final.part("buffer")}
    save_file({n: t.clone() for n, t in tensors.items()}, tmp_path / "good.safetensors")
    good = verify(path, task=task, model=tmp_path / "good.safetensors", require=("reproduced", "model_bound"))
    assert (good.verdict, standings(good)["model_bound"]) == ("ACCEPT", "established")
    name = "0.weight"
    changed = tensors[name].clone()
    changed[0, 0] = torch.nextafter(changed[0, 0], torch.tensor(9.0))
    for number, bad in enumerate(
        (
            tensors | {name: changed},
            {n: t for n, t in tensors.items() if n != name},
            tensors | {"extra": torch.zeros(1)},
            tensors | {name: tensors[name].double()},
        )
    ):
        save_file({n: t.clone() for n, t in bad.items()}, tmp_path / f"{number}.safetensors")
        verdict = verify(path, task=task, model=tmp_path / f"{number}.safetensors")
        assert (verdict.verdict, standings(verdict)["model_bound"]) == ("REJECT", "refuted")
    torch.save(tensors, tmp_path / "pickled.pt")
    for wrong in ("pickled.pt", "absent", "."):
        with pytest.raises(StorageError, match="safetensors"):
            verify(path, task=task, model=tmp_path / wrong)


def test_the_trace_does_not_choose_the_code_that_runs(honest: Any, tmp_path: Path) -> None:
    task, path = honest()
    forged = Forgery(path)
    spec = forged.manifest.task
    assert spec is None
    for name in ("os:system", "lenet-digits"):
        from trainwitness import TaskSpec

        forged.manifest = forged.manifest.model_copy(update={"task": TaskSpec(name=name)})
        forged.write(tmp_path / name.replace(":", "-"))
    with pytest.raises(UsageError, match="os:system"):
        verify(tmp_path / "os-system")
    with pytest.raises(TraceMismatch, match="param/"):
        verify(tmp_path / "lenet-digits", threshold=EPS)
    with pytest.raises(TraceMismatch, match="'lenet-digits', not 'softmax-digits'"):
        verify(tmp_path / "lenet-digits", task="softmax-digits")
    with pytest.raises(UsageError, match="unknown property"):
        verify(path, task=task, require=("truth",))  # type: ignore[arg-type]


def test_an_optimiser_state_of_another_optimiser_is_a_mismatch_not_a_crash(honest: Any, tmp_path: Path) -> None:
    _, path = honest(**ADAM)
    assert verify(path, task=tiny_task(), threshold=EPS).verdict == "REJECT"
    assert verify(path, task=tiny_task(**MOMENTUM), threshold=EPS).verdict == "REJECT"
    with pytest.raises(TraceMismatch, match="optim/bias/exp_avg"):
        verify(path, task=tiny_task(**MOMENTUM), threshold=EPS, steps=(3, 5))


def test_rows_of_the_data_set_outside_the_domain_are_named(honest: Any, tmp_path: Path) -> None:
    data = tiny_task().dataset
    labels = data.labels.copy()
    labels[7] = 2
    narrow = Dataset("narrow", data.inputs, labels, type(data.domain)(0, 255, 2), data.prepare)  # type: ignore[call-arg]
    task, path = honest(dataset=narrow)
    verdict = verify(path, task=task, threshold=EPS)
    assert verdict.verdict == "REJECT"
    named = {error.step for error in verdict.steps if any("outside the domain" in p for p in error.problems)}
    bad = {k for k, label in enumerate(labels) if label >= 2}
    assert named == {step for step in range(8) if bad & set(task.schedule.batch(step).rows[0])}


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_ulps_count_neighbouring_floats(dtype: torch.dtype) -> None:
    from trainwitness.verification.initial import ulps

    start = torch.tensor([1.0, -1.0, 0.5, 3e-5], dtype=dtype)
    up = start
    for count in range(5):
        assert ulps(start, up) == ulps(up, start) == count
        up = torch.nextafter(up, torch.full_like(up, 9.0))
    assert ulps(torch.tensor([0.0], dtype=dtype), torch.tensor([-0.0], dtype=dtype)) == 1
    assert ulps(torch.tensor([1]), torch.tensor([2])) > 1000
    assert ulps(start, start[:2]) > 1000

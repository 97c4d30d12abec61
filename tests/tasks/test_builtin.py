"""The built-in tasks: parameter counts, portable initialisation, options."""

from __future__ import annotations

import hashlib
import math
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from tests.conftest import tiny_task
from trainwitness import Stepper, TaskSpec, build_task
from trainwitness.core.canonical import tensor_bytes
from trainwitness.core.errors import UsageError
from trainwitness.core.seeds import derive
from trainwitness.tasks.builtin.deep import resnet, vgg
from trainwitness.tasks.initial import initial_model, initialise, with_gain
from trainwitness.tasks.registry import entries, parse_option
from trainwitness.tasks.schedule import ShuffledEpochs
from trainwitness.tasks.task import parameter_count
from trainwitness.training.evaluate import accuracy

PARAMETERS = {
    "fcn-adult": 1_601,
    "lenet-mnist": 61_706,
    "vggmini-cifar10": 5_742_986,
    "transformer-imdb": 657_758,
    "softmax-mnist": 7_850,
    "softmax-cifar10": 30_730,
    "mlp-mnist": 25_450,
    "lenet-digits": 61_706,
    "softmax-digits": 7_850,
    "lenet-cifar100": 69_656,
    "sigmoid-cifar100": 85_036,
    "sigmoid-digits": 13_426,
    "vgg-cifar100": 15_291_300,
    "resnet-cifar100": 11_220_132,
    "mlp-digits": 25_450,
}


def test_every_task_has_the_stated_number_of_parameters() -> None:
    assert {entry.name: parameter_count(entry.model) for entry in entries()} == PARAMETERS


@pytest.mark.real_data
@pytest.mark.parametrize(
    ("name", "rows", "test_rows"),
    [
        ("fcn-adult", 32_561, 16_281),
        ("lenet-mnist", 60_000, 10_000),
        ("softmax-cifar10", 10_000, 1_017),
        ("transformer-imdb", 5_000, 2_000),
        ("lenet-cifar100", 1_117, 916),
    ],
)
def test_real_data_loads_lies_in_its_domain_and_trains(
    name: str, rows: int, test_rows: int, data_folder: Path
) -> None:
    task = build_task(TaskSpec(name=name, options={"batch_size": 20}), data=data_folder)
    assert task.test is not None
    assert (len(task.dataset), len(task.test)) == (rows, test_rows)
    for part in (task.dataset, task.test):
        assert part.domain.outside(part.inputs, part.labels) == []
    stepper = Stepper(task)
    losses = [stepper.run(task.schedule.batch(step)).item() for step in range(3)]
    assert all(math.isfinite(loss) for loss in losses)


@pytest.mark.real_data
def test_adult_is_learned_when_standardised_and_collapses_when_not(data_folder: Path) -> None:
    accuracies = {}
    for normalise in ("standard", "none"):
        spec = TaskSpec(name="fcn-adult", options={"normalise": normalise, "batch_size": 500, "learning_rate": 0.1})
        task = build_task(spec, data=data_folder)
        stepper = Stepper(task)
        for step in range(400):
            stepper.run(task.schedule.batch(step))
        accuracies[normalise] = accuracy(stepper)
    assert accuracies["standard"] > 0.80  # the majority class has 0.764
    assert accuracies["none"] < 0.80


def test_digits_are_integer_pixels() -> None:
    from sklearn.datasets import load_digits

    data = build_task("softmax-digits").dataset
    assert data.inputs.shape == (1500, 1, 28, 28)
    assert data.inputs.dtype == np.uint8
    bundled = load_digits()
    assert np.array_equal(data.labels, bundled.target[:1500])
    assert np.array_equal(data.inputs[:, 0, 2, 2], (bundled.images[:1500, 0, 0].astype(int) * 255 + 8) // 16)
    small = bundled.images[7]
    assert data.inputs[7, 0, 0, 14] == round(small[0, 4] * 255 / 16)
    assert set(np.unique(data.inputs)) == {(255 * q + 8) // 16 for q in range(17)}


def test_softmax_digits_learns() -> None:
    task = build_task("softmax-digits")
    stepper = Stepper(task)
    for step in range(100):
        stepper.run(task.schedule.batch(step))
    assert accuracy(stepper) > 0.8


def test_initial_parameters_have_these_bits_everywhere() -> None:
    """Golden: SHA-256 of all initial parameters. A change here breaks every verifier of older traces."""
    golden = {
        "lenet-digits": "036c1dc8307cb482cf89860af292e1bf",
        "mlp-digits": "29368b2049fa7a2bb32c6e6d05f1a868",
    }
    for name, expected in golden.items():
        model = initial_model(build_task(name))
        sha = hashlib.sha256(b"".join(tensor_bytes(p).tobytes() for p in model.parameters())).hexdigest()
        assert sha[:32] == expected, name


def test_portable_initialisation_is_the_stated_formula() -> None:
    model = nn.Sequential(nn.Conv2d(4, 8, 3, groups=2), nn.BatchNorm2d(8), nn.Embedding(5, 2))
    initialise(model, seed=11)
    words = np.random.Philox(key=derive(11, "0.weight")).random_raw(8 * 2 * 9)
    expected = ((words >> np.uint64(11)).astype(float) / 2**52 - 1) / math.sqrt(18)
    assert torch.equal(model[0].weight.flatten(), torch.from_numpy(expected.astype(np.float32)))
    assert model[0].bias.abs().max() <= 1 / math.sqrt(18)
    assert torch.equal(model[1].weight, torch.ones(8))
    assert model[2].weight.abs().max() <= 0.05
    with pytest.raises(UsageError, match="LSTM"):
        initialise(nn.LSTM(2, 2), seed=0)


def test_a_gain_multiplies_the_bound() -> None:
    plain, scaled = nn.Linear(16, 3), with_gain(nn.Linear(16, 3), 3.0)
    for model in (plain, scaled):
        initialise(model, seed=1)
    torch.testing.assert_close(scaled.weight, 3 * plain.weight)


@pytest.mark.parametrize(("builder", "depth"), [(vgg, 11), (vgg, 19), (resnet, 18), (resnet, 50)])
def test_deep_models_read_small_images(builder: Callable[..., nn.Module], depth: int) -> None:
    with torch.device("meta"):
        model = builder(depth, "swish")
        assert model(torch.empty(2, 3, 32, 32)).shape == (2, 100)
    counted = [m for m in model.modules() if isinstance(m, (nn.Conv2d, nn.Linear)) and m.weight.shape[-1] != 1]
    if builder is vgg:
        assert len(counted) == depth


@pytest.mark.parametrize("kind", ["relu", "leaky-relu", "swish", "sigmoid"])
def test_lenet_takes_its_activation_from_an_option(kind: str) -> None:
    task = build_task(TaskSpec(name="lenet-digits", options={"activation": kind}))
    names = {type(module).__name__ for module in task.model().modules()}
    assert {"relu": "ReLU", "leaky-relu": "LeakyReLU", "swish": "SiLU", "sigmoid": "Sigmoid"}[kind] in names


def test_a_torch_initialised_task_depends_on_its_seed_and_nothing_else() -> None:
    first = initial_model(tiny_task(initialisation="torch", seed=1))
    torch.rand(10)
    again, other = (initial_model(tiny_task(initialisation="torch", seed=seed)) for seed in (1, 2))
    assert torch.equal(first.weight, again.weight)
    assert not torch.equal(first.weight, other.weight)


def test_each_epoch_uses_every_row_once_in_its_own_order() -> None:
    schedule = ShuffledEpochs(count=10, batch_size=5, rate=0.1, seed=3)
    epochs = [[row for step in (2 * e, 2 * e + 1) for row in schedule.batch(step).rows[0]] for e in (0, 1)]
    assert sorted(epochs[0]) == sorted(epochs[1]) == list(range(10))
    assert epochs[0] != epochs[1]
    assert schedule.batch(3).epoch == 1


def test_micro_batches_are_the_batch_cut_up() -> None:
    whole, cut = (ShuffledEpochs(12, 6, 0.1, 0, accumulate=k).batch(1) for k in (1, 3))
    assert sum(cut.rows, ()) == whole.rows[0]
    assert [len(micro) for micro in cut.rows] == [2, 2, 2]


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("nonsense", {}, "unknown task 'nonsense'"),
        ("softmax-digits", {"batch_size": 0}, "batch_size"),
        ("softmax-digits", {"batch_size": 5000}, "1500 rows"),
        ("softmax-digits", {"learning_rate": "fast"}, "learning_rate"),
        ("softmax-digits", {"learning_rate": float("nan")}, "learning_rate"),
        ("softmax-digits", {"hidden": 3}, "hidden"),
        ("softmax-digits", {"accumulate": 7}, "micro-batches"),
        ("softmax-digits", {"optimizer": "lion"}, "optimizer"),
        ("softmax-digits", {"optimizer": "adam", "momentum": 0.9}, "momentum"),
        ("mlp-digits", {"hidden": [3, 0]}, "hidden"),
        ("nowhere.to_be:found", {}, "no module 'nowhere'"),
        ("math:nothing", {}, "no function 'nothing'"),
        ("math:sqrt", {}, "sqrt"),
        ("tests.conftest:make_nothing", {}, "no function"),
    ],
)
def test_bad_requests_are_one_clear_error(name: str, options: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        build_task(TaskSpec.model_construct(name=name, options=options))


def test_a_users_own_task_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = "from tests.conftest import tiny_task\ndef mine(seed=5):\n    return tiny_task(seed=seed)\n"
    (tmp_path / "my_tasks.py").write_text(code + "def wrong():\n    return 3\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "my_tasks", raising=False)
    assert build_task("my_tasks:mine").seed == 5
    task = build_task(TaskSpec(name="my_tasks:mine", options={"seed": 9}))
    assert task.seed == 9
    assert task.spec is not None
    assert task.spec.name == "my_tasks:mine"
    with pytest.raises(UsageError, match="colour"):
        build_task(TaskSpec(name="my_tasks:mine", options={"colour": 1}))
    with pytest.raises(UsageError, match="returned int"):
        build_task("my_tasks:wrong")


@pytest.mark.parametrize(
    ("text", "expected"),
    [("a=1", 1), ("a=1.5", 1.5), ("a=1e-3", 1e-3), ("a=3,4", [3, 4]), ("a=text", "text"), ("a=x=y", "x=y")],
)
def test_options_on_the_command_line(text: str, expected: object) -> None:
    assert parse_option(text) == ("a", expected)


@pytest.mark.parametrize("text", ["a", "=1", ""])
def test_an_option_without_key_or_value_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="key=value"):
        parse_option(text)

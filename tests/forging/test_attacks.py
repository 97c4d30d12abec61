"""Every attack keeps to the rules, and its error is what the step function gives."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from tests.conftest import tiny_task
from trainwitness import Dataset, ShuffledEpochs, Stepper, Task, TaskSpec, Trace, build_task, record, verify
from trainwitness.core.errors import StorageError, UsageError
from trainwitness.forging.forge import attack, contents, step_problem, steps_with, write_forged
from trainwitness.forging.forger import FORGERS, checked, find
from trainwitness.forging.problem import Problem, Products, Sketch, make_problem
from trainwitness.training.per_example import PerExample

FIRST_LAYER = {"null-space", "error-matrix", "relabel", "lattice", "fibre"}
"""Attacks that need a fully connected first layer or examples with equal sums: test_exact.py, test_lattice.py."""


def problem_of(task: Task, step: int = 2, **settings: Any) -> Problem:
    stepper = Stepper(task)
    for k in range(step):
        stepper.run(task.schedule.batch(k))
    before, batch = stepper.state(), task.schedule.batch(step)
    return make_problem(stepper, before, stepper(before, batch), batch, **settings)


@pytest.fixture(scope="module")
def lenet() -> Problem:
    return problem_of(
        build_task(TaskSpec(name="lenet-digits", options={"batch_size": 20})), positions=range(20), pool_size=300
    )


@pytest.mark.parametrize("name", [name for name in FORGERS if name not in FIRST_LAYER])
def test_every_attack_keeps_to_the_rules(lenet: Problem, name: str) -> None:
    settings = {"candidates": 30} if "greedy" in name else {"steps": 5} if name == "optimise" else {}
    forgery = attack(lenet, name, **settings)
    assert forgery.problems == ()
    assert forgery.replaced == tuple(range(20))
    rows = [row for micro in forgery.batch.rows for row in micro]
    assert len(set(rows)) == 20
    assert set(rows) <= set(lenet.pool)
    assert not set(rows) & set(lenet.rows)
    assert forgery.cost.candidates > 0
    dataset = lenet.stepper.task.dataset
    assert not set(contents(forgery.batch, dataset)) & set(contents(lenet.batch, dataset))
    # An independent recomputation: PyTorch's own loop, in float64.
    model = lenet.stepper.task.model().double()
    names = dict(model.named_parameters())
    with torch.no_grad():
        for key, tensor in lenet.before.part("param").items():
            names[key].copy_(tensor)
    inputs, labels = dataset.fetch(rows, forgery.batch.carried)
    nn.functional.cross_entropy(model(dataset.prepare(inputs, torch.float64)), labels).backward()
    gap = sum(
        float((p.detach() - 0.01 * p.grad - lenet.after.tensors[f"param/{key}"].double()).square().sum())
        for key, p in names.items()
    )
    assert forgery.error == pytest.approx(gap**0.5, rel=1e-3)


def test_kept_examples_stay_and_removed_ones_go() -> None:
    task = tiny_task()
    rows = task.schedule.batch(2).rows[0]
    problem = problem_of(task, removed=[rows[3], rows[5], 0])
    gone = {rows[3], rows[5], 0}
    for name in ("swap-search", "efficient-greedy", "greedy", "matching-pursuit"):
        forged = attack(problem, name, **({"candidates": 50} if "greedy" in name else {}))
        new = forged.batch.rows[0]
        assert not set(new) & gone
        assert [new[k] for k in range(8) if k not in problem.positions] == [
            rows[k] for k in range(8) if k not in problem.positions
        ]


def test_swap_search_finds_the_best_single_replacement_and_nearly_the_best_pair() -> None:
    """Against every candidate, one by one through the step function."""
    one = problem_of(tiny_task(), positions=[4])
    best = min(one.error(one.batch_with([row])) for row in one.pool)
    assert attack(one, "swap-search").error == pytest.approx(best, rel=1e-6)
    two = problem_of(tiny_task(), positions=[1, 4])
    errors = sorted(two.error(two.batch_with(pair)) for pair in combinations(two.pool, 2))
    found = attack(two, "swap-search").error
    assert found <= errors[len(errors) // 50]


def test_scores_equal_the_formula_and_the_gram_matrix_a_direct_one() -> None:
    """error^2 = (eta / b)^2 |sum of new gradients - sum of old ones|^2, in float64 by hand."""
    problem = problem_of(tiny_task(), positions=range(8))
    gradients = problem.gradients()
    rows = list(problem.pool)[:9]
    matrix = gradients.matrix(rows).double()
    weight, bias = (problem.before.tensors[f"param/{n}"].double().numpy() for n in ("weight", "bias"))
    data = problem.stepper.task.dataset
    x = data.inputs[rows] / 255
    z = x @ weight.T + bias
    d = np.exp(z) / np.exp(z).sum(1, keepdims=True) - np.eye(3)[data.labels[rows]]
    by_hand = np.concatenate([np.einsum("bi,bj->bij", d, x).reshape(9, -1), d], axis=1)
    assert np.allclose(matrix.numpy(), by_hand, atol=1e-6)
    assert np.allclose(Products.of(problem).gram[:9, :9].numpy(), by_hand @ by_hand.T, atol=1e-6)
    small = PerExample(problem.stepper, problem.before, budget=300)  # one gradient at a time
    assert torch.allclose(small.total(rows), matrix.sum(0), atol=1e-6)
    with pytest.raises(UsageError, match="budget"):
        small.matrix(rows)
    sketch = Sketch.of(problem)
    choice = list(range(8))
    error = problem.error(problem.batch_with([problem.pool[k] for k in choice]))
    assert error == pytest.approx(0.1 / 8 * sketch.distance(choice), rel=1e-4)


def test_a_sketch_keeps_distances(lenet: Problem) -> None:
    gradients = lenet.gradients()
    rows = list(lenet.pool)[:40]
    exact, folded = gradients.matrix(rows).double(), gradients.sketch(rows, 4096, seed=1)
    ratios = [
        float((folded[a] - folded[b]).norm() / (exact[a] - exact[b]).norm()) for a, b in combinations(range(40), 2)
    ]
    assert np.mean(ratios) == pytest.approx(1, abs=0.02)
    assert max(abs(np.array(ratios) - 1)) < 0.15


def test_stronger_attacks_are_stronger(lenet: Problem) -> None:
    errors = {name: attack(lenet, name).error for name in ("efficient-greedy", "swap-search", "matching-pursuit")}
    assert errors["swap-search"] < errors["efficient-greedy"] / 2
    assert errors["matching-pursuit"] < errors["efficient-greedy"] / 2


def test_leaving_the_domain_is_said(lenet: Problem) -> None:
    before = {n: t.clone() for n, t in lenet.before.tensors.items()}
    forgery = attack(lenet, "optimise", projected=False, steps=5)
    assert "outside the domain" in forgery.problems[0]
    assert forgery.error > 0
    assert all(torch.equal(t, before[n]) and not t.requires_grad for n, t in lenet.before.tensors.items())


def test_features_are_another_space(lenet: Problem) -> None:
    pixels, features = (attack(lenet, "neighbour", space=space) for space in ("pixels", "features"))
    assert pixels.batch != features.batch
    labels = lenet.stepper.task.dataset.labels
    for forgery in (pixels, features):
        assert [labels[r] for r in forgery.batch.rows[0]] == [labels[r] for r in lenet.rows]


def test_twins_are_no_forgeries_and_are_reported() -> None:
    data = tiny_task().dataset
    inputs, labels = data.inputs.copy(), data.labels.copy()
    rows = tiny_task().schedule.batch(2).rows[0]
    twin = next(k for k in range(40) if k not in rows)
    inputs[twin], labels[twin] = inputs[rows[0]], labels[rows[0]]
    task = tiny_task(dataset=Dataset("twins", inputs, labels, data.domain, data.prepare))
    problem = problem_of(task, positions=[0])
    forgery = attack(problem, "swap-search")
    assert (problem.twins, forgery.twins) == (1, 1)
    assert twin not in problem.pool
    assert forgery.problems == ()


def test_rows_outside_the_domain_are_no_replacements() -> None:
    data = tiny_task().dataset
    labels = data.labels.copy()
    labels[labels == 2] = 1
    bad = [k for k in range(40) if k not in tiny_task().schedule.batch(2).rows[0]][:5]
    labels[bad] = 2
    narrow = Dataset("narrow", data.inputs, labels, type(data.domain)(0, 255, 2), data.prepare)  # type: ignore[call-arg]
    problem = problem_of(tiny_task(dataset=narrow), positions=range(8))
    assert not set(bad) & set(problem.pool)


@pytest.mark.parametrize(
    "changes",
    [
        {"optimizer": lambda p, lr: torch.optim.SGD(p, lr=lr, momentum=0.9)},
        {"optimizer": lambda p, lr: torch.optim.Adam(p, lr=lr)},
        {"schedule": ShuffledEpochs(40, 8, 0.1, seed=0, accumulate=4)},
    ],
    ids=["momentum", "adam", "micro-batches"],
)
def test_other_optimisers_and_micro_batches(changes: dict[str, Any]) -> None:
    problem = problem_of(tiny_task(**changes), positions=[1, 5])
    forgery = attack(problem, "swap-search")
    assert forgery.problems == ()
    assert [len(micro) for micro in forgery.batch.rows] == [len(micro) for micro in problem.batch.rows]
    assert forgery.error == pytest.approx(problem.error(forgery.batch), rel=1e-9)


def test_a_step_that_carries_rows_is_not_forged_again(tmp_path: Path) -> None:
    task = build_task(TaskSpec(name="softmax-digits", options={"batch_size": 10}))
    record(task, tmp_path / "t", steps=2)
    trace, stepper = Trace.open(tmp_path / "t"), Stepper(task)
    forged = attack(step_problem(trace, stepper, 1, fraction=0.2, pool_size=100), "optimise", steps=3)
    assert len(forged.batch.carried) == 2
    write_forged(trace, tmp_path / "f", [forged])
    with pytest.raises(UsageError, match="carries rows"):
        step_problem(Trace.open(tmp_path / "f"), stepper, 1, fraction=0.2)
    with pytest.raises(StorageError, match="is there already"):
        write_forged(trace, tmp_path / "t", [forged])


@pytest.mark.real_data
@pytest.mark.parametrize("name", ["fcn-adult", "transformer-imdb"])
def test_tables_and_text_are_forged_too(name: str, data_folder: Path) -> None:
    task = build_task(TaskSpec(name=name, options={"batch_size": 8}), data=data_folder)
    problem = problem_of(task, step=1, positions=range(8), pool_size=40)
    for attack_name in ("swap-search", "neighbour"):
        forgery = attack(problem, attack_name)
        assert forgery.problems == ()
        assert forgery.error > 0
    if name == "transformer-imdb":
        with pytest.raises(UsageError, match="tokens"):
            attack(problem, "optimise")


def test_a_forged_trace_opens_and_is_judged_like_any_other(tmp_path: Path) -> None:
    task = tiny_task()
    record(task, tmp_path / "t", steps=12)
    trace, row = Trace.open(tmp_path / "t"), task.schedule.batch(0).rows[0][0]
    steps = steps_with(trace, [row])
    assert steps == [k for k in range(12) if row in task.schedule.batch(k).rows[0]]
    stepper = Stepper(task)
    forged = [attack(step_problem(trace, stepper, step, removed=[row])) for step in steps]
    write_forged(trace, tmp_path / "f", forged)
    assert Trace.open(tmp_path / "f").check().steps == 12
    assert steps_with(Trace.open(tmp_path / "f"), [row]) == []
    verdict = verify(tmp_path / "f", task=task)
    errors = {error.step: error.l2 for error in verdict.steps if error.l2}
    assert errors == pytest.approx({forgery.step: forgery.error for forgery in forged}, rel=1e-6)


def test_time_is_kept(lenet: Problem) -> None:
    forgery = attack(replace(lenet, seconds=0.2), "greedy", candidates=10**6)
    assert forgery.cost.seconds < 2
    assert 0 < forgery.cost.candidates < 10**6


@pytest.mark.parametrize("name", ["swap-search", "matching-pursuit", "efficient-greedy"])
def test_time_is_kept_while_gradients_are_computed(lenet: Problem, name: str) -> None:
    """Out of time at once: the first gradients that suffice, one forgery, no more."""
    few = replace(lenet, seconds=0.0, budget=8 * 4 * 61_706 * 5)  # five gradients at a time
    forgery = attack(few, name)
    assert forgery.problems == ()
    assert forgery.cost.gradients <= 40 + 20
    assert attack(replace(few, positions=(3,)), name).cost.gradients <= 10 + 20


def test_memory_bounds_the_pool(lenet: Problem) -> None:
    """A quarter of the budget holds the products of so many rows, and the search stays among those."""
    small = replace(lenet, budget=4 * 8 * 50**2)
    assert Products.of(small).gram.shape == (50, 50)
    assert set(attack(small, "swap-search").batch.rows[0]) <= set(lenet.pool[:50])


def test_settings_of_an_attack_are_checked() -> None:
    assert checked("optimise", {"projected": "false", "rate": 1}) == {"projected": False, "rate": 1}
    assert checked("neighbour", {"space": "features"}) == {"space": "features"}
    for name, settings, message in [
        ("swap-search", {"candidates": 5}, "no setting 'candidates'"),
        ("greedy", {"candidates": "many"}, "is not of the kind"),
        ("optimise", {"projected": 3}, "is not of the kind"),
        ("magic", {}, "unknown attack"),
    ]:
        with pytest.raises(UsageError, match=message):
            checked(name, settings)


def test_bad_input(tmp_path: Path) -> None:
    task = tiny_task()
    record(task, tmp_path / "t", steps=3)
    trace, stepper = Trace.open(tmp_path / "t"), Stepper(task)
    rows = task.schedule.batch(1).rows[0]
    cases: list[tuple[dict[str, Any], str]] = [
        ({"step": 9, "fraction": 1.0}, "step 9"),
        ({"step": 1, "fraction": 0.0}, "forging fraction"),
        ({"step": 1, "removed": [77]}, "row 77"),
        ({"step": 1, "removed": list(range(40))}, "0 rows are left"),
        ({"step": 1, "fraction": 1.0, "pool_size": 7}, "a pool of 7"),
        ({"step": 1, "removed": [next(k for k in range(40) if k not in rows)]}, "none of the rows"),
    ]
    for settings, message in cases:
        with pytest.raises(UsageError, match=message):
            step_problem(trace, stepper, **settings)
    with pytest.raises(UsageError, match="unknown attack"):
        find("magic")
    normed = tiny_task(model=lambda: nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3)), initialisation="torch")
    with pytest.raises(UsageError, match="batch norm"):
        attack(problem_of(normed, positions=[0]))

"""Attacks on what a trace says: its States, its order, its rows, its length."""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from tests.evidence.catalogue import Outcome, attack
from tests.evidence.conftest import BEFORE_NONCE, COMMITTED, PLAIN, STEPS, World, answers, outcome
from tests.verification.forgery import ADAM, EPS, Forgery
from trainwitness import Batch, Dataset, ShuffledEpochs, Stepper, Trace, record, verify
from trainwitness.core.canonical import row_bytes
from trainwitness.verification.sampling import Sampling

Make = Callable[..., World]
ANY = "whatever is asked for"


def same_everywhere(found: list[Outcome]) -> list[Outcome]:
    """One line where every setting gives the same answer."""
    assert len({one[1:] for one in found}) == 1, found
    return [Outcome(ANY, *found[0][1:])]


def go_on(forged: Forgery, stepper: Stepper, first: int) -> None:
    """Honest steps, with the batches the records name, from the State before `first`."""
    for step in range(first, len(forged.records)):
        rows = tuple(map(tuple, forged.records[step].rows))
        forged.states[step + 1] = stepper(forged.states[step], Batch(step, forged.records[step].epoch, rows))


@attack(
    name="optimiser-state injection",
    how="one State's second moments are made small, so that Adam's next honest steps fly off",
    cost="none: the steps are honest",
    outcomes=[(ANY, "REJECT", "`reproduced`")],
)
def test_optimiser_state_injection(world: Make) -> list[Outcome]:
    honest = world(**ADAM)
    forged = Forgery(honest.trace)
    for name in ("weight", "bias"):
        key = f"optim/{name}/exp_avg_sq"
        forged.set(4, key, forged.states[4].tensors[key] * 1e-4)
    go_on(forged, Stepper(honest.task), 4)
    return same_everywhere(honest.asked(forged.write(honest.folder / "f")))


@attack(
    name="infinitesimal learning rate",
    how="a stolen model is the initial State, and steps too small to matter keep it (Fang et al. 2023)",
    cost="none",
    outcomes=[(ANY, "REJECT", "`initialised`, `scheduled`, `reproduced`")],
)
def test_infinitesimal_learning_rate(world: Make) -> list[Outcome]:
    honest = world()
    stolen = Trace.open(honest.trace).final_state()
    tiny_rate = replace(honest.task.schedule, rate=1e-12)  # type: ignore[type-var]
    stepper = Stepper(replace(honest.task, schedule=tiny_rate))
    forged = Forgery(honest.trace)
    forged.states[0] = stolen
    forged.records = [r.model_copy(update={"groups": [r.groups[0] | {"lr": 1e-12}]}) for r in forged.records]
    go_on(forged, stepper, 0)
    found = same_everywhere(honest.asked(forged.write(honest.folder / "f")))
    # A verifier who lets the owner choose the rate, too, still sees where the run began.
    lenient = verify(honest.folder / "f", task=stepper.task, threshold=EPS)
    assert lenient.properties["reproduced"].standing == "established"
    assert lenient.properties["initialised"].standing == "refuted"
    return sorted_checks(found)


def sorted_checks(found: list[Outcome]) -> list[Outcome]:
    """Checks in the order of the table."""
    wanted = ["`initialised`", "`scheduled`", "`reproduced`"]
    return [one._replace(check=", ".join(check for check in wanted if check in one.check)) for one in found]


@attack(
    name="data-order replay",
    how="an order that suited is used again every epoch; every step is honest",
    cost="none",
    outcomes=[(ANY, "REJECT", "`scheduled`")],
)
def test_data_order_replay(world: Make) -> list[Outcome]:
    honest = world()
    forged = Forgery(honest.trace)
    for step in range(5, STEPS):
        forged.records[step] = forged.records[step].model_copy(update={"rows": forged.records[step - 5].rows})
    go_on(forged, Stepper(honest.task), 5)
    return same_everywhere(honest.asked(forged.write(honest.folder / "f")))


@attack(
    name="splicing two honest traces",
    how="the first half of one run, the second half of another; only one step is false",
    cost="two trainings",
    outcomes=[(ANY, "REJECT", "`reproduced`"), ("a sample of 1 step in 60", "REJECT", "`reproduced`")],
)
def test_splicing(world: Make) -> list[Outcome]:
    honest = world(steps=60)
    record(replace(honest.task, seed=1), honest.folder / "other", steps=60)
    forged, other = Forgery(honest.trace), Forgery(honest.folder / "other")
    forged.states[31:] = other.states[31:]
    spliced = forged.write(honest.folder / "f")
    sample = verify(spliced, task=honest.task, threshold=EPS, sampling=Sampling(0.9, 0.5, "n"))
    assert sample.sample is not None
    assert len(sample.sample["drawn"]) == 1  # the largest updates are recomputed besides
    return [*same_everywhere(honest.asked(spliced)), outcome("a sample of 1 step in 60", sample)]


@attack(
    name="truncation",
    how="the last steps are cut off and the rest is sealed anew",
    cost="none",
    outcomes=[
        (ANY, "ACCEPT", "nothing"),
        ("with the shipped model file", "REJECT", "`model_bound`"),
    ],
)
def test_truncation(world: Make) -> list[Outcome]:
    """What is left is the truth about a shorter run; it is the model that it is not about."""
    honest = world()
    shipped = honest.model(Trace.open(honest.trace).final_state(), "shipped")
    forged = Forgery(honest.trace)
    forged.records, forged.states = forged.records[:5], forged.states[:6]
    cut = forged.write(honest.folder / "f")
    bound = verify(cut, task=honest.task, threshold=EPS, model=shipped)
    return [*same_everywhere(honest.asked(cut)), outcome("with the shipped model file", bound)]


@attack(
    name="substituted initialisation",
    how="training goes on from weights that were trained elsewhere, and is called a fresh start",
    cost="none: the steps are honest",
    outcomes=[(ANY, "REJECT", "`initialised`")],
)
def test_substituted_initialisation(world: Make) -> list[Outcome]:
    honest = world()
    forged = Forgery(honest.trace)
    forged.set(0, "param/weight", forged.states[0].tensors["param/weight"] + 0.25)
    go_on(forged, Stepper(honest.task), 0)
    return same_everywhere(honest.asked(forged.write(honest.folder / "f")))


@attack(
    name="swapped labels",
    how="training used wrong labels; the trace names the clean rows",
    cost="one training",
    outcomes=[(ANY, "REJECT", "`reproduced`")],
)
def test_swapped_labels(world: Make) -> list[Outcome]:
    honest = world()
    data = honest.task.dataset
    poisoned = replace(honest.task, dataset=replace(data, labels=(data.labels + 1) % 3))
    forged = Forgery(honest.trace)
    go_on(forged, Stepper(poisoned), 0)
    return same_everywhere(honest.asked(forged.write(honest.folder / "f")))


@attack(
    name="swapped labels, carried",
    how="the trace carries the rows with their wrong labels, so that every step reproduces",
    cost="one training",
    outcomes=[
        (PLAIN, "REJECT", "`data_matches`"),
        (COMMITTED, "REJECT", "`data_matches`, `data_committed`"),
        (BEFORE_NONCE, "REJECT", "`data_matches`, `data_committed`"),
    ],
)
def test_swapped_labels_carried(world: Make) -> list[Outcome]:
    honest = world(steps=5)  # one epoch
    data = honest.task.dataset
    labels = (data.labels + 1) % 3
    forged = Forgery(honest.trace)
    go_on(forged, Stepper(replace(honest.task, dataset=replace(data, labels=labels))), 0)
    for step, stored in enumerate(forged.records):
        rows = {str(k): row_bytes((data.inputs[row], labels[row])) for k, row in enumerate(stored.rows[0])}
        carried = {k: base64.b64encode(row).decode() for k, row in rows.items()}
        forged.records[step] = stored.model_copy(update={"carried": carried})
    return honest.asked(forged.write(honest.folder / "f"))


@attack(
    name="one row with two contents",
    how="a row number stands for other content in another epoch, so that fewer numbers than rows appear",
    cost="one training",
    outcomes=[(ANY, "REJECT", "`data_matches`, `data_committed`")],
)
def test_one_index_two_contents(world: Make) -> list[Outcome]:
    honest = world()
    row = Forgery(honest.trace).records[6].rows[0][0]
    content = Dataset("o", honest.task.dataset.inputs[[row]] ^ 1, honest.task.dataset.labels[[row]]).row(0)
    forged = Forgery(honest.trace)
    carried = {"0": base64.b64encode(content).decode()}
    forged.records[6] = forged.records[6].model_copy(update={"carried": carried})
    stepper = Stepper(honest.task)
    rows = tuple(map(tuple, forged.records[6].rows))
    forged.states[7] = stepper(forged.states[6], Batch(6, forged.records[6].epoch, rows, {0: content}))
    go_on(forged, stepper, 7)
    return same_everywhere(honest.asked(forged.write(honest.folder / "f")))


@attack(
    name="a seed that suits",
    how="many seeds are tried and the run is shown whose order or initialisation serves the claim",
    cost="one training a seed",
    outcomes=[
        (PLAIN, "ACCEPT", "nothing"),
        (COMMITTED, "ACCEPT", "nothing"),
        (BEFORE_NONCE, "REJECT", "`data_committed`"),
    ],
)
def test_a_seed_that_suits(world: Make, tmp_path: Path) -> list[Outcome]:
    honest = world()
    wanted = min(range(20), key=lambda seed: ShuffledEpochs(40, 8, 0.1, seed=seed).batch(0).rows[0][0])
    chosen = replace(honest.task, seed=wanted, schedule=ShuffledEpochs(40, 8, 0.1, seed=wanted))
    record(chosen, tmp_path / "chosen", steps=STEPS)
    return answers(tmp_path / "chosen", chosen, honest.commitment, (PLAIN, COMMITTED, BEFORE_NONCE))


def test_the_honest_trace_is_accepted_at_every_grade(world: Make) -> None:
    honest = world()
    assert {one.answer for one in honest.asked(honest.trace)} == {"ACCEPT"}

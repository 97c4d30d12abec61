"""Optimised-noise spoofing of a whole trace, in both domains and against the checkpoint interval."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from safetensors.torch import save_file

from tests.conftest import tiny_task
from tests.evidence.catalogue import Outcome, attack
from tests.evidence.conftest import BEFORE_NONCE, COMMITTED, PLAIN, answers, outcome
from tests.evidence.spoofing import STEPS, Spoof, real_domain, spoof
from tests.verification.forgery import EPS, Forgery
from trainwitness import ShuffledEpochs, State, Stepper, Task, record, verify
from trainwitness.commitments.commitment import Committed, commit
from trainwitness.commitments.sources import rows_of
from trainwitness.trace.record import dataset_facts
from trainwitness.trace.rewrite import write_trace

GRADES = (PLAIN, COMMITTED, BEFORE_NONCE)
NAMED, SHIPPED = "the data it claims, at hand", "with the stolen model file"


def attackers_task() -> Task:
    """A seed of the attacker's own choice; any honest-looking settings would do."""
    return tiny_task(seed=7, schedule=ShuffledEpochs(40, 8, 0.5, seed=7))


def stolen_model(task: Task) -> State:
    """What somebody else trained, on other labels."""
    other = replace(task, dataset=replace(task.dataset, labels=(task.dataset.labels + 1) % 3))
    stepper = Stepper(other)
    for step in range(STEPS):
        stepper.run(task.schedule.batch(step))
    return stepper.state()


def written(found: Spoof, folder: Path, *, every: int = 1) -> Path:
    """The spoofed States as a sealed trace over the invented data set."""
    record(found.task, folder / "form", steps=STEPS)
    form = Forgery(folder / "form")
    manifest = form.manifest.model_copy(update={"data": dataset_facts(found.task.dataset), "checkpoint_every": every})
    kept = [state if (k + 1) % every == 0 else None for k, state in enumerate(found.states[1:])]
    write_trace(folder / "spoofed", manifest, found.states[0], zip(form.records, kept, strict=True))
    return folder / "spoofed"


def model_file(state: State, path: Path) -> Path:
    save_file({name: tensor.clone() for name, tensor in state.part("param").items()}, path)
    return path


def judged(task: Task, folder: Path, *, every: int = 1, honest: bool = False) -> list[Outcome]:
    """Spoofs a whole trace, hands the invented rows over as the data, and asks at every grade."""
    stolen = stolen_model(task)
    found = spoof(task, stolen, every=every, honest=honest)
    trace, shipped = written(found, folder, every=every), model_file(stolen, folder / "stolen.safetensors")
    made = commit(rows_of(found.task.dataset))  # after the fact
    verdict = verify(trace, task=found.task, threshold=EPS, model=shipped)
    return [*answers(trace, found.task, made, GRADES), outcome(SHIPPED, verdict)]


def spoofed(check: str) -> list[tuple[str, str, str]]:
    """Nothing but a nonce sees an invented data set; where rounding spoils the fit, every setting does."""
    if check == "nothing":
        grades = [("ACCEPT", "nothing"), ("ACCEPT", "nothing"), ("REJECT", "`data_committed`"), ("ACCEPT", "nothing")]
    else:
        grades = [("REJECT", check)] * 2 + [("REJECT", f"{check}, `data_committed`"), ("REJECT", check)]
    return [(setting, *found) for setting, found in zip((*GRADES, SHIPPED), grades, strict=True)]


@attack(
    name="optimised-noise spoofing, real numbers",
    how="rows of real numbers are optimised until they lead from the seed's start to a stolen model; the owner hands "
    "them over as its data and commits to them afterwards (Zhang et al. 2022)",
    cost="about 430 per-example gradients a step of 8 rows; no training",
    outcomes=spoofed("nothing"),
)
def test_real_rows(tmp_path: Path) -> list[Outcome]:
    return judged(real_domain(attackers_task()), tmp_path)


@attack(
    name="the same, States kept every 4 steps",
    how="one State to meet instead of four (Fang et al. 2023)",
    cost="the same",
    outcomes=spoofed("nothing"),
)
def test_real_rows_between_checkpoints(tmp_path: Path) -> list[Outcome]:
    return judged(real_domain(attackers_task()), tmp_path, every=4)


@attack(
    name="the same, rounded to whole pixels",
    how="the rows must be integers of 0..255, as the domain says",
    cost="the same",
    outcomes=spoofed("`reproduced`"),
)
def test_whole_rows(tmp_path: Path) -> list[Outcome]:
    return judged(attackers_task(), tmp_path)


@attack(
    name="the same, rounded, States kept every 4 steps",
    how="three batches without a State make good what rounding spoilt",
    cost="the same",
    outcomes=spoofed("`reproduced`"),
)
def test_whole_rows_between_checkpoints(tmp_path: Path) -> list[Outcome]:
    return judged(attackers_task(), tmp_path, every=4)


@attack(
    name="the same, rounded, with the States it does lead to",
    how="an honest training on invented rows, which ends near the stolen model",
    cost="the same",
    outcomes=[
        (PLAIN, "ACCEPT", "nothing"),
        (COMMITTED, "ACCEPT", "nothing"),
        (BEFORE_NONCE, "REJECT", "`data_committed`"),
        (SHIPPED, "REJECT", "`model_bound`"),
    ],
)
def test_whole_rows_honestly_stored(tmp_path: Path) -> list[Outcome]:
    return judged(attackers_task(), tmp_path, honest=True)


@attack(
    name="invented rows passed off as known ones",
    how="the spoofed trace names the data set that everybody has",
    cost="the same",
    outcomes=[(NAMED, "REJECT", "`reproduced`, `data_matches`, `data_committed`")],
)
def test_invented_rows_against_the_data(tmp_path: Path) -> list[Outcome]:
    task = real_domain(attackers_task())
    trace = written(spoof(task, stolen_model(task)), tmp_path)
    honest = Committed(commit(rows_of(task.dataset)))
    return [outcome(NAMED, verify(trace, task=task, threshold=EPS, commitment=honest))]


def test_the_spoofed_model_is_the_stolen_one_and_not_the_data_s(tmp_path: Path) -> None:
    """The attack works: the trace ends in the stolen model, which the real rows do not lead to."""
    task = real_domain(attackers_task())
    stolen = stolen_model(task)
    found = spoof(task, stolen)
    verdict = verify(written(found, tmp_path), task=found.task, threshold=EPS)
    assert 0 < verdict.max_l2 < 1e-6
    honest = Stepper(task)
    for step in range(STEPS):
        honest.run(task.schedule.batch(step))
    assert float((honest.state().tensors["param/weight"] - stolen.tensors["param/weight"]).norm()) > 0.05
    assert 200 * STEPS < found.gradients < 900 * STEPS

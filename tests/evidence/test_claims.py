"""Attacks on what stands around a trace: commitments, proofs, signatures, timestamps."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from tests.attestation.authority import Authority
from tests.attestation.conftest import Owner
from tests.attestation.test_attestations import claim_of, public
from tests.commitments.test_commitment import KEY, NONCE
from tests.conftest import tiny_task
from tests.evidence.catalogue import Outcome, attack
from tests.evidence.conftest import BEFORE_NONCE, COMMITTED, World, answers, outcome
from trainwitness import ShuffledEpochs, Trace, record, verify
from trainwitness.attestation.check import Checked, check_attestation
from trainwitness.attestation.dsse import seal
from trainwitness.attestation.keys import load_private
from trainwitness.attestation.statements import training_claim
from trainwitness.audit.evidence import with_timestamp
from trainwitness.commitments.commitment import Commitment, Committed, bound_seed, commit, write_commitment
from trainwitness.commitments.proofs import absent_problems, prove_absent
from trainwitness.commitments.sources import rows_of

Make = Callable[..., World]
STAMPED = "committed and time-stamped"


def told(setting: str, checked: Checked, check: str) -> Outcome:
    """What `check` says of an attestation."""
    return Outcome(setting, "SIGNED" if checked.good else "REFUSED", "nothing" if checked.good else check)


@attack(
    name="a commitment made after training",
    how="the owner trains first, with a seed that suits, and commits and has it time-stamped when asked",
    cost="none",
    outcomes=[
        (COMMITTED, "ACCEPT", "nothing"),
        (STAMPED, "ACCEPT", "nothing: a timestamp does not date the training"),
        (BEFORE_NONCE, "REJECT", "`data_committed`"),
    ],
)
def test_a_commitment_after_training(authority: Authority, tmp_path: Path) -> list[Outcome]:
    task = tiny_task(seed=3, schedule=ShuffledEpochs(40, 8, 0.1, seed=3))
    record(task, tmp_path / "t", steps=5)
    made = write_commitment(tmp_path / "late.commit", lambda _: commit(rows_of(task.dataset)), None)
    (tmp_path / "t.tsr").write_bytes(authority.stamp(tmp_path / "late.commit"))
    verdict = verify(tmp_path / "t", task=task, commitment=Committed(made))
    stamped = with_timestamp(verdict, tmp_path / "late.commit", tmp_path / "t.tsr", authority.root)
    found = outcome(STAMPED, stamped)
    if "which does not date the training" in stamped.properties["data_committed"].why:
        found = found._replace(check=f"{found.check}: a timestamp does not date the training")
    before, after = (answers(tmp_path / "t", task, made, (setting,)) for setting in (COMMITTED, BEFORE_NONCE))
    return [*before, found, *after]


@attack(
    name="many commitments, one nonce",
    how="commitments to many versions of the data lie ready; when public randomness falls, the one whose seed suits "
    "is shown",
    cost="one hashing of the data a try; k bits of choice take 2^k tries",
    outcomes=[
        ("committed, then public randomness", "ACCEPT", "nothing"),
        ("one commitment, then the verifier's own nonce", "REJECT", "`data_committed`"),
    ],
)
def test_many_commitments(tmp_path: Path) -> list[Outcome]:
    data = tiny_task().dataset
    versions = [replace(data, labels=(data.labels + k * (data.labels == k % 3)) % 3) for k in range(6)]
    tries = [(bound_seed(commit(rows_of(version)), NONCE), version) for version in versions]
    seed, version = min(tries, key=lambda one: ShuffledEpochs(40, 8, 0.1, seed=one[0]).batch(0).rows[0][0])
    task = tiny_task(dataset=version, seed=seed, schedule=ShuffledEpochs(40, 8, 0.1, seed=seed))
    record(task, tmp_path / "t", steps=5)
    chosen, given = commit(rows_of(version)), commit(rows_of(data))
    assert chosen != given
    shown = verify(tmp_path / "t", task=task, commitment=Committed(chosen, nonce=NONCE))
    held = verify(tmp_path / "t", task=task, commitment=Committed(given, nonce=NONCE))
    return [
        outcome("committed, then public randomness", shown),
        outcome("one commitment, then the verifier's own nonce", held),
    ]


@attack(
    name="replayed timestamp",
    how="the timestamp of an older commitment is shown with a new one",
    cost="none",
    outcomes=[(STAMPED, "REJECT", "`data_committed`")],
)
def test_replayed_timestamp(world: Make, authority: Authority) -> list[Outcome]:
    honest = world()
    dataset = honest.task.dataset
    old = replace(dataset, labels=(dataset.labels + 1) % 3)
    write_commitment(honest.folder / "old", lambda _: commit(rows_of(old)), None)
    write_commitment(honest.folder / "new", lambda _: commit(rows_of(dataset), key=KEY), None)
    (honest.folder / "t.tsr").write_bytes(authority.stamp(honest.folder / "old"))
    verdict = verify(honest.trace, task=honest.task, commitment=Committed(honest.commitment))
    assert verdict.verdict == "ACCEPT"
    return [outcome(STAMPED, with_timestamp(verdict, honest.folder / "new", honest.folder / "t.tsr", authority.root))]


@attack(
    name="signature over another payload type",
    how="bytes that were signed as something else are passed off as an attestation",
    cost="none, if the owner signs other things with the same key",
    outcomes=[
        ("the type it was signed with", "REFUSED", "payload type"),
        ("the type changed", "REFUSED", "signature"),
    ],
)
def test_another_payload_type(owner: Owner) -> list[Outcome]:
    payload = base64.b64decode(json.loads(claim_of(owner))["payload"])
    other = seal(payload, load_private(owner.keys["ed25519"]), "text/plain")
    typed = check_attestation(other.model_dump_json().encode(), "e", public(owner))
    assert "type" in typed.problems[0]
    renamed = other.model_copy(update={"payloadType": "application/vnd.in-toto+json"})
    changed = check_attestation(renamed.model_dump_json().encode(), "e", public(owner))
    assert "no signature" in changed.problems[0]
    return [
        told("the type it was signed with", typed, "payload type"),
        told("the type changed", changed, "signature"),
    ]


@attack(
    name="an attestation of another trace",
    how="a good signature for one run is shown with the trace of another (or of a shorter one)",
    cost="none",
    outcomes=[("`check --trace`", "REFUSED", "step root"), ("`check` alone", "SIGNED", "nothing")],
)
def test_another_trace(owner: Owner, tmp_path: Path) -> list[Outcome]:
    record(tiny_task(), tmp_path / "t", steps=3)
    claim = claim_of(owner)
    checked = check_attestation(claim, "e", public(owner), trace=Trace.open(tmp_path / "t"))
    assert any("the trace here" in problem for problem in checked.problems)
    return [
        told("`check --trace`", checked, "step root"),
        told("`check` alone", check_attestation(claim, "e", public(owner)), ""),
    ]


@attack(
    name="a signed lie",
    how="the owner signs a claim over a trace that does not reproduce",
    cost="none: a signature says who, not whether",
    outcomes=[("`check`", "SIGNED", "nothing"), ("`verify`", "REJECT", "`scheduled`, `reproduced`")],
)
def test_a_signed_lie(world: Make, owner: Owner) -> list[Outcome]:
    from tests.verification.forgery import Forgery

    honest = world()
    forged = Forgery(honest.trace)
    forged.records[3] = forged.records[3].model_copy(update={"rows": [list(range(8))]})
    trace = forged.write(honest.folder / "f")
    model = honest.model(forged.states[-1], "m")
    claim = training_claim(Trace.open(trace), model, commitment=honest.commitment)
    content = seal(claim.to_bytes(), load_private(owner.keys["ed25519"])).model_dump_json().encode()
    checked = check_attestation(content, "e", public(owner), trace=Trace.open(trace), model=model)
    found = honest.asked(trace, (BEFORE_NONCE,))[0]
    assert {"`reproduced`", "`scheduled`"} <= set(found.check.split(", "))
    return [told("`check`", checked, ""), Outcome("`verify`", found.answer, "`scheduled`, `reproduced`")]


@attack(
    name="a sorted tree without the row",
    how="the owner leaves a row out of the second tree and proves it absent",
    cost="none, if nobody with the data and the secret looks",
    outcomes=[
        ("`check-proof` with row and secret", "HOLDS", "nothing"),
        ("`verify --secret`", "REJECT", "`data_committed`"),
    ],
)
def test_a_lopsided_sorted_tree(world: Make) -> list[Outcome]:
    honest = world()
    data = honest.task.dataset
    row, others = data.row(7), replace(data, inputs=data.inputs.copy())
    others.inputs[7] = 255 - others.inputs[7]
    lying = commit(rows_of(others), key=KEY)
    forged = Commitment(data=honest.commitment.data, sorted=lying.sorted)
    proof = prove_absent(lying, rows_of(others), KEY, row).model_copy(update={"commitment": forged.digest})
    problems = absent_problems(proof, forged, row, KEY)
    verdict = verify(honest.trace, task=honest.task, commitment=Committed(forged, key=KEY))
    return [
        Outcome("`check-proof` with row and secret", "REFUSED" if problems else "HOLDS", "nothing"),
        outcome("`verify --secret`", verdict),
    ]

"""Proofs hold for what is true, and for nothing else."""

from __future__ import annotations

import hashlib
import hmac
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.commitments.test_commitment import KEY
from tests.commitments.test_merkle import definition
from tests.conftest import tiny_task
from trainwitness import Dataset
from trainwitness.commitments.commitment import Commitment, Rows, commit
from trainwitness.commitments.proofs import (
    AbsentProof,
    MemberProof,
    absent_problems,
    member_problems,
    parse_proof,
    prove_absent,
    prove_member,
)
from trainwitness.commitments.sources import rows_of
from trainwitness.core.errors import EvidenceDamaged, UsageError
from trainwitness.core.records import dump


def toy(contents: list[bytes]) -> tuple[Rows, Commitment]:
    rows = Rows("toy", "bytes", lambda: iter(contents))
    return rows, commit(rows, key=KEY)


@settings(deadline=None, max_examples=40)
@given(st.lists(st.binary(max_size=2), min_size=1, max_size=20), st.binary(max_size=2))
def test_a_row_is_proved_present_or_absent_and_never_both(contents: list[bytes], row: bytes) -> None:
    rows, made = toy(contents)
    for index, content in enumerate(contents):
        proof = prove_member(made, rows, index)
        assert (member_problems(proof, made, row) == []) == (content == row)
    if row in contents:
        with pytest.raises(UsageError, match="is there"):
            prove_absent(made, rows, KEY, row)
    else:
        absent = prove_absent(made, rows, KEY, row)
        assert absent_problems(absent, made, row, KEY) == []
        assert not any(absent_problems(absent, made, other, KEY) == [] for other in contents)


def test_the_sorted_tree_is_what_the_documentation_says() -> None:
    """An independent computation from the words of docs/commitments.md."""
    contents = [b"pear", b"apple", b"fig", b"apple"]
    leaves = sorted(
        hmac.new(KEY, row, hashlib.sha256).digest() + number.to_bytes(8, "big") for number, row in enumerate(contents)
    )
    made = toy(contents)[1]
    assert made.sorted is not None
    assert made.sorted.root == definition(leaves).hex()
    assert made.sorted.key == hashlib.sha256(b"trainwitness/absence-key/v1\0" + KEY).hexdigest()


def changed(proof: Any) -> list[Any]:
    """The proof with one thing altered, in every way worth trying."""
    lies: list[Any] = [proof.model_copy(update={"commitment": "0" * 64})]
    if isinstance(proof, MemberProof):
        lies += [proof.model_copy(update={"index": proof.index + by}) for by in (1, 2)]
        lies += [proof.model_copy(update={"leaf": "0" * 64}), proof.model_copy(update={"path": proof.path[1:]})]
        return lies
    lies.append(proof.model_copy(update={"digest": "0" * 64}))
    for side in ("left", "right"):
        neighbour = getattr(proof, side)
        if neighbour is None:
            continue
        lies.append(proof.model_copy(update={side: None}))
        for update in ({"digest": "f" * 64}, {"row": neighbour.row + 1}, {"position": neighbour.position + 1},
                       {"path": neighbour.path[::-1][1:]}):  # fmt: skip
            lies.append(proof.model_copy(update={side: neighbour.model_copy(update=update)}))
    return lies


def test_every_alteration_is_refused() -> None:
    contents = [bytes([number]) for number in range(11)]
    rows, made = toy(contents)
    member = prove_member(made, rows, 4)
    for lie in changed(member):
        assert member_problems(lie, made, contents[4])
    for row in (b"aa", b"bb", b"cc", b"dd", b"ee"):
        absent = prove_absent(made, rows, KEY, row)
        for lie in changed(absent):
            assert absent_problems(lie, made, row, KEY), lie


def test_neighbours_that_are_not_next_to_each_other_hide_a_row() -> None:
    """The attack on absence: skip the leaf of the row that is there."""
    contents = [bytes([number]) for number in range(9)]
    rows, made = toy(contents)
    by_digest = sorted(contents, key=lambda row: hmac.digest(KEY, row, "sha256"))
    hidden = by_digest[4]
    # Honest proofs for absent rows give every leaf with a sound path; the liar glues leaf 3 and leaf 5 together.
    sides = {}
    number = 0
    while not {3, 5} <= sides.keys():
        proof = prove_absent(made, rows, KEY, b"x%d" % number)
        number += 1
        for side in (proof.left, proof.right):
            if side is not None:
                sides[side.position] = side
    digest = hmac.digest(KEY, hidden, "sha256").hex()
    glued = AbsentProof(commitment=made.digest, digest=digest, left=sides[3], right=sides[5])
    assert absent_problems(glued, made, hidden, KEY) == ["the two leaves are not neighbours in the sorted tree"]


def test_a_sorted_tree_without_a_row_passes_alone_and_is_caught_beside_the_data() -> None:
    """Why someone with the data must compare both trees once: the proof itself cannot know."""
    contents = [bytes([number]) for number in range(9)]
    honest = toy(contents)[1]
    lying_rows, lying = toy([row for row in contents if row != b"\x05"] + [b"\x99"])
    forged = Commitment(data=honest.data, sorted=lying.sorted)
    proof = prove_absent(lying, lying_rows, KEY, b"\x05").model_copy(update={"commitment": forged.digest})
    assert absent_problems(proof, forged, b"\x05", KEY) == []  # passes: nothing here shows the lie
    assert toy(contents)[1].sorted != forged.sorted  # the data and the key show it


def test_another_key_is_refused() -> None:
    rows, made = toy([b"a", b"b"])
    with pytest.raises(EvidenceDamaged, match="secret"):
        prove_absent(made, rows, bytes(32), b"c")
    proof = prove_absent(made, rows, KEY, b"c")
    assert absent_problems(proof, made, b"c", bytes(32)) == ["the key is not the one the commitment fixes"]


def test_proofs_disclose_no_content_and_are_small() -> None:
    dataset = tiny_task().dataset
    rows, made = rows_of(dataset), commit(rows_of(dataset), key=KEY)
    other = Dataset("o", np.full((1, 4), 7, np.uint8), np.zeros(1, np.int64)).row(0)
    member, absent = dump(prove_member(made, rows, 3))[0], dump(prove_absent(made, rows, KEY, other))[0]
    assert len(member) < 1000
    assert len(absent) < 2000
    for index in range(40):
        content = dataset.row(index)
        for secret in (content.hex(), hashlib.sha256(content).hexdigest()):
            assert secret.encode() not in member + absent
    assert KEY.hex().encode() not in absent


def test_what_cannot_be_proved_is_said(tmp_path: Any) -> None:
    rows = rows_of(tiny_task().dataset)
    plain = commit(rows)
    with pytest.raises(UsageError, match="rows 0 to 39"):
        prove_member(plain, rows, 40)
    with pytest.raises(UsageError, match="no sorted tree"):
        prove_absent(plain, rows, KEY, b"x")
    with pytest.raises(EvidenceDamaged, match="root"):
        prove_member(plain, Rows("other", "", lambda: iter([b"x"] * 40)), 0)
    keyed = commit(rows, key=KEY)
    proof = prove_absent(keyed, rows, KEY, b"x")
    assert "no sorted tree" in absent_problems(proof, plain, b"x", KEY)[-1]


def test_proofs_are_read_back() -> None:
    rows, made = toy([b"a", b"b", b"c"])
    for proof in (prove_member(made, rows, 1), prove_absent(made, rows, KEY, b"d")):
        content = dump(proof)[0]
        assert parse_proof(content, "p") == proof
        for at in range(len(content)):
            with pytest.raises(EvidenceDamaged):
                parse_proof(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :], "p")

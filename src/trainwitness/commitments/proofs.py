"""Proofs that a row is, or is not, among the rows of a commitment. They hold hashes and no content."""

from __future__ import annotations

import hmac
from typing import Annotated, Literal

from pydantic import Field

from trainwitness.commitments.commitment import Commitment, Rows
from trainwitness.commitments.inclusion import PathFinder, root_of
from trainwitness.commitments.keyed import LEAF_BYTES, KeyedDigests, key_digest, keyed_digest
from trainwitness.commitments.merkle import leaf_hash
from trainwitness.core.errors import EvidenceDamaged, UsageError
from trainwitness.core.records import Digest, Record, load

Path32 = Annotated[list[Digest], Field(max_length=64)]
Number = Annotated[int, Field(ge=0, lt=1 << 63)]


class MemberProof(Record):
    """Row `index` has this leaf hash."""

    format: Literal["trainwitness/member-proof/1"] = "trainwitness/member-proof/1"
    commitment: Digest
    index: Number
    leaf: Digest
    path: Path32


class Neighbour(Record):
    """A leaf of the sorted tree: a keyed digest, the number of its row, and where it stands."""

    digest: Digest
    row: Number
    position: Number
    path: Path32


class AbsentProof(Record):
    """The keyed digest of the row that is not there falls between two neighbours (or before or after all)."""

    format: Literal["trainwitness/absent-proof/1"] = "trainwitness/absent-proof/1"
    commitment: Digest
    digest: Digest
    left: Neighbour | None
    right: Neighbour | None


class _AnyProof(Record):
    format: Literal["trainwitness/member-proof/1", "trainwitness/absent-proof/1"]
    model_config = Record.model_config | {"extra": "ignore"}


def parse_proof(content: bytes, name: str) -> MemberProof | AbsentProof:
    """The proof in a file's bytes."""
    kind, _ = load(_AnyProof, content, name, EvidenceDamaged)
    if kind.format == "trainwitness/member-proof/1":
        return load(MemberProof, content, name, EvidenceDamaged)[0]
    return load(AbsentProof, content, name, EvidenceDamaged)[0]


def prove_member(commitment: Commitment, rows: Rows, index: int) -> MemberProof:
    """The proof for one row, in one pass over all of them."""
    if not 0 <= index < commitment.data.rows:
        raise UsageError(f"row {index}: the commitment has rows 0 to {commitment.data.rows - 1}")
    found = PathFinder([index], map(leaf_hash, rows.iterate()))
    if found.root.hex() != commitment.data.root:
        raise EvidenceDamaged(f"{rows.name} has root {found.root.hex()}, the commitment {commitment.data.root}")
    path = [sibling.hex() for sibling in found.paths[index]]
    return MemberProof(commitment=commitment.digest, index=index, leaf=found.leaves[index].hex(), path=path)


def prove_absent(commitment: Commitment, rows: Rows, key: bytes, row: bytes) -> AbsentProof:
    """The proof that no row has the content `row`; UsageError if one has."""
    _check_key(commitment, key)
    digests, digest = KeyedDigests(key), keyed_digest(key, row)
    digests.add(rows.iterate())
    leaves = list(digests.leaves())
    right = sum(leaf[:32] < digest for leaf in leaves)
    if right < len(leaves) and leaves[right][:32] == digest:
        number = int.from_bytes(leaves[right][32:], "big")
        raise UsageError(f"the row is there: it is row {number}", hint="prove-member proves that")
    wanted = [place for place in (right - 1, right) if 0 <= place < len(leaves)]
    found = PathFinder(wanted, map(leaf_hash, leaves))
    assert commitment.sorted is not None
    if found.root.hex() != commitment.sorted.root:
        raise EvidenceDamaged(f"{rows.name} has sorted root {found.root.hex()}, not {commitment.sorted.root}")
    sides = {place: _neighbour(leaves[place], place, found) for place in wanted}
    return AbsentProof(
        commitment=commitment.digest, digest=digest.hex(), left=sides.get(right - 1), right=sides.get(right)
    )


def _neighbour(leaf: bytes, position: int, found: PathFinder) -> Neighbour:
    path = [sibling.hex() for sibling in found.paths[position]]
    return Neighbour(digest=leaf[:32].hex(), row=int.from_bytes(leaf[32:], "big"), position=position, path=path)


def member_problems(proof: MemberProof, commitment: Commitment, row: bytes | None) -> list[str]:
    """Why a proof of membership does not hold; empty if it does. Without `row` only the leaf hash is placed."""
    problems = _other_commitment(proof, commitment)
    if row is not None and leaf_hash(row).hex() != proof.leaf:
        problems.append(f"the row given is not the one the proof is about (row {proof.index})")
    path = [bytes.fromhex(sibling) for sibling in proof.path]
    root = root_of(bytes.fromhex(proof.leaf), proof.index, commitment.data.rows, path)
    if root is None or root.hex() != commitment.data.root:
        problems.append(f"the path does not lead from row {proof.index} to the data root")
    return problems


def absent_problems(
    proof: AbsentProof, commitment: Commitment, row: bytes | None = None, key: bytes | None = None
) -> list[str]:
    """Why a proof of absence does not hold; empty if it does.

    That the digest is the row's can be seen only with the row and the owner's key; otherwise it is the owner's word.
    """
    problems = _other_commitment(proof, commitment)
    if commitment.sorted is None:
        return [*problems, "the commitment has no sorted tree, so nothing can be shown to be absent from it"]
    if key is not None and key_digest(key) != commitment.sorted.key:
        problems.append("the key is not the one the commitment fixes")
    elif key is not None and row is not None and not _is_digest(key, row, proof.digest):
        problems.append("the digest is not that of the row given, under this key")
    count, digest = commitment.data.rows, bytes.fromhex(proof.digest)
    before = -1 if proof.left is None else proof.left.position
    after = count if proof.right is None else proof.right.position
    if after != before + 1:
        problems.append("the two leaves are not neighbours in the sorted tree")
    for side, neighbour in (("left", proof.left), ("right", proof.right)):
        if neighbour is None:
            continue
        content = bytes.fromhex(neighbour.digest)
        leaf = leaf_hash(content + neighbour.row.to_bytes(LEAF_BYTES - len(content), "big"))
        path = [bytes.fromhex(sibling) for sibling in neighbour.path]
        root = root_of(leaf, neighbour.position, count, path)
        if root is None or root.hex() != commitment.sorted.root:
            problems.append(f"the path of the {side} neighbour does not lead to the sorted root")
        if not (content < digest if side == "left" else digest < content):
            problems.append(f"the row's digest is not on its side of the {side} neighbour")
    return problems


def _other_commitment(proof: MemberProof | AbsentProof, commitment: Commitment) -> list[str]:
    if proof.commitment == commitment.digest:
        return []
    return [f"the proof is about commitment {proof.commitment}, not {commitment.digest}"]


def _is_digest(key: bytes, row: bytes, stated: str) -> bool:
    return hmac.compare_digest(keyed_digest(key, row).hex(), stated)


def _check_key(commitment: Commitment, key: bytes) -> None:
    if commitment.sorted is None:
        raise UsageError("the commitment has no sorted tree", hint="commit with --secret FILE to prove absence later")
    if key_digest(key) != commitment.sorted.key:
        raise EvidenceDamaged("the secret is not the one the commitment fixes", hint="find the one used to commit")

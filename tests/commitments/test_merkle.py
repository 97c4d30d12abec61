"""The hash tree against RFC 6962's definition and Certificate Transparency's published vectors."""

from __future__ import annotations

import hashlib
import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from trainwitness.commitments.merkle import BLOCK, BLOCK_BYTES, Frontier, leaf_hash, prefixed

LEAVES = ["", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f"]
ROOTS = [
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
]


def definition(leaves: list[bytes]) -> bytes:
    """MTH of RFC 6962, section 2.1, as it is written there."""
    if not leaves:
        return hashlib.sha256(b"").digest()
    if len(leaves) == 1:
        return hashlib.sha256(b"\x00" + leaves[0]).digest()
    k = 1
    while 2 * k < len(leaves):
        k *= 2
    return hashlib.sha256(b"\x01" + definition(leaves[:k]) + definition(leaves[k:])).digest()


def test_published_vectors() -> None:
    tree = Frontier()
    for leaf, root in zip(LEAVES, ROOTS, strict=True):
        tree.append(bytes.fromhex(leaf))
        assert tree.root().hex() == root


@given(st.lists(st.binary(max_size=4), max_size=70))
def test_frontier_equals_the_definition(leaves: list[bytes]) -> None:
    assert Frontier(leaves).root() == definition(leaves)


@settings(deadline=None, max_examples=25)
@given(st.lists(st.integers(0, 3 * BLOCK), min_size=1, max_size=4))
def test_many_at_once_is_the_same_tree_wherever_it_is_cut(pieces: list[int]) -> None:
    leaves = [number.to_bytes(4, "big") for number in range(sum(pieces))]
    whole, rest = Frontier(), iter(leaves)
    for piece in pieces:
        whole.extend(itertools.islice(rest, piece))
    one_by_one = Frontier()
    for leaf in leaves:
        one_by_one.append(leaf)
    assert whole.count == len(leaves)
    assert whole.root() == one_by_one.root() == definition(leaves)


@settings(deadline=None, max_examples=25)
@given(st.lists(st.integers(0, 300), max_size=12))
def test_hashes_in_lists_of_any_length_make_the_same_tree(pieces: list[int]) -> None:
    leaves = [number.to_bytes(4, "big") for number in range(sum(pieces))]
    tree, rest = Frontier(), iter(leaves)
    for piece in pieces:
        tree.append_hashes([leaf_hash(leaf) for leaf in itertools.islice(rest, piece)])
    assert tree.root() == definition(leaves)


def test_lists_of_large_leaves_are_short() -> None:
    large = bytes(BLOCK_BYTES // 4)
    assert [len(block) for block in prefixed([large] * 10)] == [4, 4, 2]
    assert [len(block) for block in prefixed([b"small"] * (BLOCK + 1))] == [BLOCK, 1]

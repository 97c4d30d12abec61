"""Audit paths against RFC 6962's own recursive definition."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.commitments.test_merkle import definition
from trainwitness.commitments.inclusion import PathFinder, root_of
from trainwitness.commitments.merkle import leaf_hash


def defined_path(index: int, leaves: list[bytes]) -> list[bytes]:
    """PATH of RFC 6962, section 2.1.1, as it is written there."""
    if len(leaves) == 1:
        return []
    k = 1
    while 2 * k < len(leaves):
        k *= 2
    if index < k:
        return [*defined_path(index, leaves[:k]), definition(leaves[k:])]
    return [*defined_path(index - k, leaves[k:]), definition(leaves[:k])]


@pytest.mark.parametrize("count", [*range(1, 34), 63, 64, 65, 100])
def test_every_path_is_the_defined_one_and_leads_to_the_root(count: int) -> None:
    leaves = [bytes([number]) for number in range(count)]
    found = PathFinder(range(count), map(leaf_hash, leaves))
    assert found.root == definition(leaves)
    for index in range(count):
        assert found.paths[index] == defined_path(index, leaves)
        assert root_of(leaf_hash(leaves[index]), index, count, found.paths[index]) == found.root


@settings(deadline=None)
@given(st.integers(1, 40), st.data())
def test_a_path_serves_one_leaf_of_one_tree(count: int, data: st.DataObject) -> None:
    leaves = [bytes([number]) for number in range(count)]
    index = data.draw(st.integers(0, count - 1))
    found = PathFinder([index], map(leaf_hash, leaves))
    path, leaf = found.paths[index], leaf_hash(leaves[index])
    other = data.draw(st.integers(-2, count + 3).filter(lambda number: number != index))
    assert root_of(leaf, other, count, path) != found.root
    assert root_of(leaf_hash(b"other"), index, count, path) != found.root
    assert root_of(leaf, index, count, [*path, leaf]) is None
    if path:
        assert root_of(leaf, index, count, path[:-1]) is None
        at = data.draw(st.integers(0, len(path) - 1))
        changed = [*path[:at], bytes(32), *path[at + 1 :]]
        assert root_of(leaf, index, count, changed) != found.root

"""Every result that has no file of its own: all it says, as facts and tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from trainwitness.report.blocks import Block, Facts, Section, Table
from trainwitness.report.read import Envelope

DEEPEST = 4


def tell(envelope: Envelope, _all: Sequence[Envelope]) -> Section:
    """A section for any JSON."""
    return Section(headline=f"result of {envelope.kind}", blocks=list(blocks(envelope.result)))


def blocks(value: Mapping[str, Any], title: str = "", depth: int = 0) -> Iterator[Block]:
    """Scalars as facts, lists of objects as tables, the rest by the same rule one level deeper."""
    plain = {key: shown(item) for key, item in value.items() if _is_plain(item)}
    if plain:
        yield Facts(title, plain)
    for key, item in value.items():
        name = f"{title}, {key}" if title else key
        if _is_plain(item):
            continue
        if isinstance(item, Mapping) and depth < DEEPEST:
            yield from blocks(item, name, depth + 1)
        elif isinstance(item, list) and item and all(isinstance(row, Mapping) for row in item):
            yield table(name, item)
        else:
            yield Table(name, [key], [[shown(item)]], folded=True)


def table(title: str, rows: Sequence[Mapping[str, Any]], *, folded: bool = False) -> Table:
    """Objects as rows; columns in the order in which they first occur, without those that hold lists or objects."""
    header = list(dict.fromkeys(key for row in rows for key, item in row.items() if _is_plain(item)))
    return Table(title, header, [[shown(row.get(key)) for key in header] for row in rows], folded)


def shown(value: Any) -> Any:
    """Short lists as text; everything else as it is."""
    if isinstance(value, list):
        return ", ".join(map(str, value)) if len(value) <= 12 else f"{len(value)} values"
    return value


def _is_plain(value: Any) -> bool:
    if isinstance(value, list):
        return all(not isinstance(item, (Mapping, list)) for item in value)
    return not isinstance(value, Mapping)

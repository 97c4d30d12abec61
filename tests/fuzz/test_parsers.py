"""Every parser of evidence on altered and made-up bytes (hypothesis); `atheris_target.py` goes on for hours."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fuzz.parsers import PARSERS, try_parser
from tests.fuzz.seeds import seeds

ANY_CASE = settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[bytes]]:
    return seeds(tmp_path_factory.mktemp("seeds"))


@pytest.mark.parametrize("name", PARSERS)
def test_honest_evidence_is_read(name: str, honest: dict[str, list[bytes]]) -> None:
    if name == "timestamp":  # of an authority that the fuzzer's parser does not trust
        return
    read = [try_parser(PARSERS[name], content) for content in honest[name]]
    assert read == [name != "commitment"] * len(read)  # without its digest a commitment is none


@pytest.mark.parametrize("name", PARSERS)
@ANY_CASE
@given(content=st.binary(max_size=300))
def test_any_bytes_are_read_or_refused(name: str, content: bytes) -> None:
    try_parser(PARSERS[name], content)


@pytest.mark.parametrize("name", [name for name in PARSERS if name != "records"])
@ANY_CASE
@given(data=st.data())
def test_altered_evidence_is_read_or_refused(name: str, honest: dict[str, list[bytes]], data: st.DataObject) -> None:
    content = bytearray(data.draw(st.sampled_from(honest[name])))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(content) - 1))
        piece = data.draw(st.binary(max_size=6))
        content[at : at + data.draw(st.integers(0, 6))] = piece
        if not content:
            break
    try_parser(PARSERS[name], bytes(content))

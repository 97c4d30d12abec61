"""The page without a browser: what it says, that it needs nothing else, and what it does with strangers' files."""

from __future__ import annotations

import base64
import json
import re
import struct
import zlib
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.cli.test_cli import run
from trainwitness.core.errors import ResultDamaged
from trainwitness.report.page import page
from trainwitness.report.pictures import picture_of, png_uri
from trainwitness.report.plots import thinned
from trainwitness.report.read import read_envelope

RESULTS = Path(__file__).parents[2] / "results"


class Outline(HTMLParser):
    """Elements with their attributes, and the page's text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self._in_script = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._in_script = tag in ("script", "style")

    def handle_endtag(self, tag: str) -> None:
        self._in_script = False

    def handle_data(self, data: str) -> None:
        if not self._in_script:
            self.words.append(data)


@pytest.fixture(scope="module")
def text(results: list[Path]) -> str:
    return page([read_envelope(path) for path in results])


def test_every_result_has_a_section_and_verdicts_come_first(results: list[Path], text: str) -> None:
    kinds = [attributes["data-kind"] for tag, attributes in Outline(text).elements if tag == "section"]
    assert len(kinds) == len(results)
    assert kinds[:2] == ["verify", "verify"]
    assert "verify" not in kinds[2:]
    words = " ".join(Outline(text).words)
    assert words.index("ACCEPT") < words.index("established")
    for part in ("REJECT", "refuted", "unknown", "To repeat it"):
        assert part in words


def test_the_page_needs_no_network_and_no_other_file(text: str) -> None:
    for tag, attributes in Outline(text).elements:
        for name in ("src", "href"):
            target = attributes.get(name) or ""
            assert target.startswith(("data:", "#")) or not target, (tag, target)
        assert tag not in ("iframe", "object", "embed", "base")
    assert "default-src 'none'" in text


def test_numbers_on_the_page_are_those_of_the_json(results: list[Path], text: str) -> None:
    exact = {attributes["data-value"] for _, attributes in Outline(text).elements if "data-value" in attributes}
    for path in results:
        result = json.loads(path.read_text())["result"]
        if path.name in ("verify.json", "rejected.json"):
            assert repr(result["max_l2"]) in exact
            assert {repr(step["l2"]) for step in result["steps"]} <= exact
        if path.name == "cal.json":
            largest = {repr(source["all"]["largest"]) for source in result["sources"].values()}
            assert largest <= exact
        if path.name == "reproduce.json":
            assert {repr(row["ours"]) for row in result["rows"]} <= exact


def test_every_kept_result_can_be_told() -> None:
    paths = sorted(RESULTS.glob("*.json"))
    assert len(paths) > 10
    assert page([read_envelope(path) for path in paths]).count("<section") == len(paths)


def test_text_of_a_stranger_is_shown_and_never_obeyed(results: list[Path], tmp_path: Path) -> None:
    evil = "</script><script>alert(1)</script><img src=x onerror=alert(1)>"
    for path in results:
        content = json.loads(path.read_text())
        (tmp_path / path.name).write_text(json.dumps(_poisoned(content, evil)))
        hostile = page([read_envelope(tmp_path / path.name)])
        assert "alert(1)" in hostile
        assert not re.search(r"<(script|img)[^>]*(alert|onerror)", hostile)
        assert "<script>alert" not in hostile


def _poisoned(value: Any, evil: str, key: str = "") -> Any:
    if isinstance(value, dict):
        return {name: _poisoned(item, evil, name) for name, item in value.items()}
    if isinstance(value, list):
        return [_poisoned(item, evil, key) for item in value]
    keep = ("schema", "kind", "pixels", "device")
    return value + evil if isinstance(value, str) and key not in keep else value


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "not JSON"),
        ("[1]", "not a result of trainwitness"),
        ('{"schema": "other/1"}', "schema 'other/1'"),
        ('{"schema": "trainwitness/result/1", "kind": 3}', "kind is not a str"),
        ("[" * 100_000, "not JSON"),
        (
            '{"schema": "trainwitness/result/1", "kind": "verify", "command": [], "environment": {}, "result": {}}',
            "not a whole result of verify",
        ),
    ],
)
def test_what_is_no_result_is_refused(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "x.json").write_text(content)
    with pytest.raises(ResultDamaged, match=message):
        page([read_envelope(tmp_path / "x.json")])


def test_an_unknown_kind_is_told_as_facts_and_tables(tmp_path: Path) -> None:
    envelope = {"schema": "trainwitness/result/1", "kind": "novelty", "command": ["trainwitness", "x"]}
    result = {"answer": 42, "rows": [{"a": 1.5}, {"b": "word"}], "deep": {"er": [1, 2]}}
    (tmp_path / "x.json").write_text(json.dumps(envelope | {"environment": {}, "result": result}))
    words = " ".join(Outline(page([read_envelope(tmp_path / "x.json")])).words)
    for part in ("result of novelty", "42", "1.5", "word", "1, 2"):
        assert part in words


def test_the_verb_writes_the_page(results: list[Path], tmp_path: Path) -> None:
    out, _ = run("report", *results[:2], "--out", "r.html", "--title", "Audit of <us>", cwd=tmp_path)
    assert "report: r.html, 2 results" in out
    assert "<h1>Audit of &lt;us&gt;</h1>" in (tmp_path / "r.html").read_text()


def test_pixels_become_a_png_of_the_same_pixels() -> None:
    for channels in (1, 3):
        planes = np.random.default_rng(0).integers(0, 256, (channels, 5, 7), np.uint8)
        shape = [5, 7] if channels == 1 else [3, 5, 7]
        picture = picture_of({"shape": shape, "pixels": base64.b64encode(planes.tobytes()).decode()})
        assert picture is not None
        content = base64.b64decode(png_uri(picture).partition(",")[2])
        assert struct.unpack(">II", content[16:24]) == (7, 5)
        at = content.index(b"IDAT")
        length = struct.unpack(">I", content[at - 4 : at])[0]
        lines = np.frombuffer(zlib.decompress(content[at + 4 : at + 4 + length]), np.uint8).reshape(5, -1)[:, 1:]
        assert (lines.reshape(5, 7, channels) == planes.transpose(1, 2, 0)).all()


@pytest.mark.parametrize("wrong", [{}, {"shape": [2, 2], "pixels": "AAAA"}, {"shape": [9], "pixels": ""}])
def test_what_is_no_picture_is_none(wrong: dict[str, Any]) -> None:
    assert picture_of(wrong) is None


def test_thinning_keeps_every_peak() -> None:
    values = [0.0] * 10_000
    values[1234] = values[9999] = 5.0
    x, y = thinned(range(10_000), values, most=100)
    assert len(x) <= 100
    assert [k for k, value in zip(x, y, strict=True) if value == 5.0] == [1234, 9999]

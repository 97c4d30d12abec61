"""The page in a real, headless Chromium: it draws, answers to mouse and keyboard, and says what the JSON says."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from trainwitness.report.page import page as make_page
from trainwitness.report.read import read_envelope

playwright = pytest.importorskip("playwright.sync_api")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    assert CHROMIUM, "no Chromium: apt-get install chromium (or set PATH to a Chrome), then run make test-all again"
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def report(results: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("page") / "report.html"
    out.write_text(make_page([read_envelope(path) for path in results]), encoding="utf-8")
    return out


class Opened:
    """A loaded page, and everything it complained about."""

    def __init__(self, browser: Any, report: Path, **context: Any) -> None:
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.page = browser.new_context(**context).new_page()
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(report.as_uri())
        self.page.wait_for_function("document.documentElement.dataset.drawn", timeout=120_000)


@pytest.fixture(scope="module")
def opened(browser: Any, report: Path) -> Opened:
    return Opened(browser, report, viewport={"width": 1200, "height": 900})


def test_it_loads_without_complaints_and_without_the_network(opened: Opened) -> None:
    assert opened.complaints == []
    assert [url for url in opened.requests if not url.startswith(("file:", "data:", "blob:"))] == []


def test_every_plot_is_drawn_with_a_table_behind_it(opened: Opened) -> None:
    found = opened.page.evaluate(
        "[...document.querySelectorAll('.plot')].map(p => [p.querySelectorAll('.main-svg').length,"
        " p.parentElement.querySelectorAll('details table tbody tr').length,"
        " p.querySelectorAll('.scatterlayer path, .barlayer path').length])"
    )
    assert len(found) >= 7
    for drawings, rows, marks in found:
        assert drawings >= 1
        assert rows >= 1
        assert marks >= 1


def test_numbers_of_plots_and_tables_are_those_of_the_json(opened: Opened, results: list[Path]) -> None:
    rejected = json.loads(next(p for p in results if p.name == "rejected.json").read_text())["result"]
    section = opened.page.locator("section", has=opened.page.locator("text=rejected.json"))
    drawn = section.locator(".plot").first.evaluate("p => p.data.map(t => [t.name, t.x, t.y])")
    series = {name: dict(zip(x, y, strict=True)) for name, x, y in drawn if name == "l2 error"}["l2 error"]
    assert {step: value for step, value in series.items() if value} == {
        step["step"]: step["l2"] for step in rejected["steps"] if step["l2"]
    }
    threshold = next(y for name, _, y in drawn if name == "threshold")
    assert set(threshold) == {rejected["threshold"]["value"]}
    cells = (
        section.locator("figure")
        .first.locator("td[data-value]")
        .evaluate_all("cells => cells.map(c => [c.dataset.value, c.textContent])")
    )
    assert cells
    for exact, shown in cells:
        assert float(shown) == pytest.approx(float(exact), rel=1e-2)
    assert section.locator("h2").inner_text().startswith("REJECT")


def test_the_legend_is_linked_within_a_result_and_works_by_keyboard(opened: Opened) -> None:
    page = opened.page
    section = page.locator("section", has=page.locator("text=cal.json")).first
    tick = section.locator(".legend input").first
    name = tick.get_attribute("data-series")
    visible = "p => p.data.filter(t => t.name === n).map(t => t.visible)"
    tick.focus()
    page.keyboard.press("Space")
    for plot in section.locator(".plot").all():
        hidden = plot.evaluate(f"(p, n) => ({visible})(p)", name)
        assert all(value is False for value in hidden)
    page.keyboard.press("Space")
    assert section.locator(".plot").first.evaluate(f"(p, n) => ({visible})(p)", name) == [True]


def test_a_plot_zooms_by_keyboard_and_shows_values_on_hovering(opened: Opened) -> None:
    page = opened.page
    plot = page.locator("section", has=page.locator("text=verify.json")).first.locator(".plot").first
    span = "p => p._fullLayout.xaxis.range[1] - p._fullLayout.xaxis.range[0]"
    before = plot.evaluate(span)
    plot.focus()
    page.keyboard.press("+")
    page.wait_for_function(
        "([p, b]) => p._fullLayout.xaxis.range[1] - p._fullLayout.xaxis.range[0] < b * 0.8",
        arg=[plot.element_handle(), before],
    )
    page.keyboard.press("0")
    page.wait_for_timeout(300)
    assert plot.evaluate(span) == pytest.approx(before)
    plot.evaluate("p => Plotly.Fx.hover(p, [{curveNumber: 0, pointNumber: 3}])")
    assert plot.locator(".hoverlayer .hovertext").count() == 1


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_on_a_phone_nothing_is_wider_than_the_screen(browser: Any, report: Path, scheme: str) -> None:
    small = Opened(browser, report, viewport={"width": 390, "height": 844}, color_scheme=scheme)
    assert small.complaints == []
    assert small.page.evaluate("document.documentElement.scrollWidth") <= 390
    ink, ground = small.page.evaluate(
        "[getComputedStyle(document.body).color, getComputedStyle(document.body).backgroundColor]"
    )
    light = [sum(map(int, part[4:-1].split(","))) for part in (ink, ground)]
    assert (light[0] > light[1]) == (scheme == "dark")


def test_it_prints(opened: Opened, tmp_path: Path) -> None:
    opened.page.pdf(path=tmp_path / "report.pdf")
    assert (tmp_path / "report.pdf").read_bytes().startswith(b"%PDF")
    assert opened.complaints == []


def test_everything_can_be_reached_by_keyboard(opened: Opened) -> None:
    page = opened.page
    page.evaluate("document.activeElement.blur()")
    seen = set()
    for _ in range(400):
        page.keyboard.press("Tab")
        seen.add(page.evaluate("document.activeElement.className + '/' + document.activeElement.tagName"))
    assert "skip/A" in seen
    assert any(name.startswith("plot") or "js-plotly-plot" in name for name in seen)
    assert "/INPUT" in seen
    assert "/SUMMARY" in seen

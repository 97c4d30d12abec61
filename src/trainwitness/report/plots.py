"""Plots to figures that plotly.js draws. Colours follow the page, so only their places in the palette are named."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from trainwitness.report.blocks import Plot, Series

MOST_POINTS = 4000
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "cross", "triangle-down", "star", "pentagon")
"""Series are told apart by shape too, for those who see no colours."""


def figure(plot: Plot) -> dict[str, Any]:
    """Data and layout for `Plotly.newPlot`."""
    traces = [trace for place, series in enumerate(plot.series) for trace in _traces(series, place)]
    axis = {"automargin": True, "zeroline": False}
    return {
        "data": traces,
        "layout": {
            "xaxis": axis | {"title": {"text": plot.x}},
            "yaxis": axis
            | {"title": {"text": plot.y}, "type": "log" if plot.log else "linear", "exponentformat": "power"},
            "margin": {"l": 56, "r": 16, "t": 8, "b": 48},
            "showlegend": False,
            "hovermode": "closest",
            "dragmode": "zoom",
            "barmode": "group",
            "paper_bgcolor": "rgba(0,0,0,0)",
            "plot_bgcolor": "rgba(0,0,0,0)",
            "font": {"size": 13},
        },
    }


def _traces(series: Series, place: int) -> Iterator[dict[str, Any]]:
    common = {"name": series.name, "meta": {"series": series.name, "place": place, "shape": series.shape}}
    points: dict[str, Any] = {"x": list(series.x), "y": list(series.y)}
    if series.notes:
        common |= {"text": list(series.notes), "hovertemplate": "%{text}<extra>%{fullData.name}</extra>"}
    if series.shape == "bars":
        yield common | points | {"type": "bar"}
    elif series.shape == "band":
        low = {"x": points["x"], "y": list(series.low), "mode": "lines", "line": {"width": 0}, "hoverinfo": "skip"}
        yield common | low | {"type": "scatter"}
        yield common | points | {"type": "scatter", "mode": "lines", "line": {"width": 0}, "fill": "tonexty"}
    elif series.shape in ("points", "hollow"):
        symbol = SYMBOLS[place % len(SYMBOLS)] + ("-open" if series.shape == "hollow" else "")
        yield common | points | {"type": "scatter", "mode": "markers", "marker": {"symbol": symbol, "size": 7}}
    else:
        line = (
            {"dash": ("dash", "dot", "dashdot")[place % 3], "width": 2} if series.shape == "limit" else {"width": 1.5}
        )
        mode = "lines" if series.shape == "limit" or len(points["x"]) > 1 else "markers"
        yield common | points | {"type": "scatter", "mode": mode, "line": line}


def thinned(x: Sequence[int], y: Sequence[float | None], most: int = MOST_POINTS) -> tuple[list[int], list[Any]]:
    """At most `most` points: of each run of neighbours the largest, so that no large error is lost."""
    group = -(-len(x) // most)
    if group <= 1:
        return list(x), list(y)
    kept = []
    for at in range(0, len(x), group):
        part = range(at, min(at + group, len(x)))
        kept.append(max(part, key=lambda k: -1.0 if (value := y[k]) is None else value))
    return [x[k] for k in kept], [y[k] for k in kept]


def floor_of(*values: float | None) -> float:
    """Where errors of exactly 0 are drawn on a logarithmic axis: a tenth of the smallest that is not 0."""
    positive = [value for value in values if value]
    return min(positive) / 10 if positive else 1e-12

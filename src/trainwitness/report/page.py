"""The page: one HTML file that needs nothing else."""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Sequence
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any

import jinja2
from plotly.offline import get_plotlyjs

import trainwitness.report.kinds  # noqa: F401  (registers every kind)
from trainwitness.core.errors import ResultDamaged, StorageError
from trainwitness.core.version import version
from trainwitness.experiments.experiment import cell
from trainwitness.report.blocks import Facts, Plot, Section
from trainwitness.report.kinds import any as any_kind
from trainwitness.report.kinds.kind import teller_of
from trainwitness.report.pictures import png_uri
from trainwitness.report.plots import figure
from trainwitness.report.read import Envelope, read_envelope

MOST_ROWS = 1000
"""Rows of a table on the page; the JSON has them all."""
_ASSETS = resources.files("trainwitness.report") / "assets"


def page(envelopes: Sequence[Envelope], *, title: str = "trainwitness report") -> str:
    """All results on one page, verdicts first, everything it shows inside it.

    >>> page([read_envelope(Path("verdict.json"))])                              # doctest: +SKIP
    '<!doctype html>...'
    """
    ordered = sorted(envelopes, key=lambda one: one.kind != "verify")
    told = [(envelope, told_section(envelope, ordered)) for envelope in ordered]
    environment = jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {"cell": cell, "exact": _exact, "png": png_uri, "kind": lambda block: type(block).__name__}
    template = environment.from_string((_ASSETS / "page.html.j2").read_text(encoding="utf-8"))
    plots = any(isinstance(block, Plot) for _, section in told for block in section.blocks)
    return template.render(
        title=title,
        told=told,
        version=version(),
        most_rows=MOST_ROWS,
        command=shlex.join,
        figure=_figure_json,
        style=_asset("page.css"),
        script=_asset("page.js"),
        plotly=jinja2.filters.do_mark_safe(get_plotlyjs()) if plots else "",
    )


def write_page(results: Sequence[Path], out: Path, *, title: str = "trainwitness report") -> int:
    """Reads results, writes their page, and says how many bytes it has."""
    content = page([read_envelope(path) for path in results], title=title).encode()
    try:
        out.write_bytes(content)
    except OSError as error:
        raise StorageError(f"{out}: cannot be written: {error.strerror}", hint="choose another place") from error
    return len(content)


def told_section(envelope: Envelope, everything: Sequence[Envelope]) -> Section:
    """A result's section, with the machine it was computed on at the end."""
    teller = teller_of(envelope.kind) or any_kind.tell
    try:
        section = teller(envelope, everything)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise ResultDamaged(
            f"{envelope.name}: not a whole result of {envelope.kind} ({type(error).__name__}: {error})",
            hint="was the file changed by hand, or written by another version?",
        ) from error
    machine = {key: value for key, value in envelope.environment.items() if not isinstance(value, dict)}
    code = envelope.environment.get("code") or {}
    facts = machine | {f"code {key}": value for key, value in code.items()}
    about = Facts("Environment", {key: value for key, value in facts.items() if value is not None})
    return replace(section, details=[*section.details, about])


def _asset(name: str) -> Any:
    return jinja2.filters.do_mark_safe((_ASSETS / name).read_text(encoding="utf-8"))


def _figure_json(plot: Plot) -> Any:
    """A figure as JSON that can stand inside a script element: no text of a result can end the element."""
    text = json.dumps(figure(plot), allow_nan=False, ensure_ascii=True)
    return jinja2.filters.do_mark_safe(text.replace("<", "\\u003c").replace("&", "\\u0026"))


def _exact(value: object) -> str | None:
    """A number with all its digits, where the page shows fewer."""
    return repr(value) if isinstance(value, float) and math.isfinite(value) else None

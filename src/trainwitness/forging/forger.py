"""Forger: an attack by name."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from trainwitness.core.batch import Batch
from trainwitness.core.errors import UsageError
from trainwitness.forging.problem import Problem
from trainwitness.tasks.domain import Array

FORGERS: dict[str, str] = {
    "swap-search": "exchange the example that lowers the error most, until none does",
    "matching-pursuit": "add the example that fits what is still missing best, then exchange",
    "greedy": "best of M random batches, one backward pass each (Thudi et al.)",
    "efficient-greedy": "best of M random batches, scored from single gradients (Kong et al.)",
    "neighbour": "the nearest example of the same class (Zhang et al.)",
    "optimise": "gradient descent on the inputs, then onto the domain (workshop paper)",
    "null-space": "real-valued inputs with the same gradient (Proposition 2)",
    "error-matrix": "real-valued inputs and labels with the same gradient, one layer (Proposition 3)",
    "relabel": "the same inputs with labels exchanged so that the gradient stays",
    "lattice": "other valid inputs with the same gradient, where the first layer has a null space",
    "fibre": "real-valued inputs with the same gradient, by Newton steps, for any smooth network",
}
"""Name to what the attack does; the module has the same name. The first is the default."""
DEFAULT = next(iter(FORGERS))
EXACT = frozenset({"null-space", "error-matrix", "relabel", "lattice", "fibre"})
"""Attacks that aim at the same gradient; their forgeries have a residual in float64 too."""


@dataclass(frozen=True)
class Choice:
    """What an attack proposes: a batch, and what it took to find."""

    batch: Batch
    gradients: int
    candidates: int
    real: Array | None = None
    """Inputs of the whole batch that are no rows of the data set, if the attack left the domain."""
    labels: Array | None = None
    """With `real`: labels of the whole batch, where they are not those of its rows; real vectors if made up."""


class Forger(Protocol):
    """A module of this folder."""

    def forge(self, problem: Problem) -> Choice:
        """Another batch for the problem's step, within its time."""
        ...


def find(name: str) -> Forger:
    """An attack by name."""
    if name not in FORGERS:
        raise UsageError(f"unknown attack {name!r}", hint=f"attacks: {', '.join(FORGERS)}")
    return importlib.import_module(f"trainwitness.forging.{name.replace('-', '_')}")


def checked(name: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of an attack as its own kind of number or word; what it does not know is the user's mistake."""
    known = {
        key: parameter.default
        for key, parameter in inspect.signature(find(name).forge).parameters.items()
        if parameter.default is not parameter.empty
    }
    taken = {}
    for key, given in settings.items():
        if key not in known:
            raise UsageError(
                f"{name} has no setting {key!r}",
                hint=f"settings: {', '.join(f'{k}={v}' for k, v in known.items()) or 'none'}",
            )
        kind = type(known[key])
        value = {"true": True, "false": False}.get(str(given), given) if kind is bool else given
        value = tuple(value) if kind is tuple and isinstance(value, list) else value
        if not isinstance(value, (int, float) if kind is float else kind):
            raise UsageError(f"{name}: {key}={value} is not of the kind of {key}={known[key]}")
        taken[key] = value
    return taken

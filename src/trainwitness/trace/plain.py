"""A scheduler's state as JSON and back: schedulers keep counters, tuples and infinities, which JSON has not."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np

from trainwitness.core.errors import NotCapturable

_TAG = "~"


def to_json(value: Any) -> Any:
    """Plain JSON data; dictionaries with other keys than text, counters, tuples and infinities are tagged."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {_TAG: "float", "value": repr(value)}
    if isinstance(value, list):
        return [to_json(item) for item in value]
    if isinstance(value, tuple):
        return {_TAG: "tuple", "value": [to_json(item) for item in value]}
    if isinstance(value, dict):
        kind = "counter" if isinstance(value, Counter) else "dict"
        return {_TAG: kind, "value": [[to_json(key), to_json(item)] for key, item in value.items()]}
    raise NotCapturable(
        f"the scheduler keeps a {type(value).__name__}, which cannot be written",
        hint="leave scheduler= out, and restore the scheduler yourself when you resume",
    )


def from_json(value: Any) -> Any:
    """What `to_json` was given."""
    if isinstance(value, list):
        return [from_json(item) for item in value]
    if not isinstance(value, dict):
        return value
    kind, held = value[_TAG], value["value"]
    if kind == "float":
        return float(held)
    if kind == "tuple":
        return tuple(from_json(item) for item in held)
    pairs = {from_json(key): from_json(item) for key, item in held}
    return Counter(pairs) if kind == "counter" else pairs

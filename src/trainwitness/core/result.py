"""Result: what every verb returns, as plain data with a kind and a schema version."""

from __future__ import annotations

import math
from typing import Any

from pydantic import BaseModel, ConfigDict

from trainwitness.core.environment import Environment

SCHEMA = "trainwitness/result/1"


class Result(BaseModel):
    """The envelope written by `--json`: numbers are finite or null."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_: str = SCHEMA
    kind: str
    command: list[str]
    environment: Environment
    result: dict[str, Any]

    def to_json(self) -> str:
        """One JSON object with the keys schema, kind, command, environment, result."""
        import json

        data = self.model_dump(mode="json")
        ordered = {"schema": data.pop("schema_"), **data}
        return json.dumps(finite(ordered), indent=2, ensure_ascii=False, allow_nan=False)


def finite(value: Any) -> Any:
    """`value` with every infinite or undefined float replaced by None, in lists and dicts too."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [finite(item) for item in value]
    return value

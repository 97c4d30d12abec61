"""An honest trace, for the tests of verification."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import tiny_task
from trainwitness import Task, record


@pytest.fixture
def honest(tmp_path: Path) -> Callable[..., tuple[Task, Path]]:
    def make(steps: int = 8, **changes: Any) -> tuple[Task, Path]:
        task = tiny_task(**changes)
        record(task, tmp_path / "honest", steps=steps, chunk_steps=3)
        return task, tmp_path / "honest"

    return make

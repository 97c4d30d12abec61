from __future__ import annotations

from pathlib import Path

import pytest

from tests.report.results import make_results


@pytest.fixture(scope="session")
def results(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The JSON of every verb."""
    return make_results(tmp_path_factory.mktemp("results"))

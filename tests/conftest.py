"""Fixtures: a tiny task, traces of it, and the real data sets where they are."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from trainwitness import Dataset, IntegerBox, ShuffledEpochs, Task, record

DATA = os.environ.get("TRAINWITNESS_DATA")
_skipped_real_data: list[str] = []


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--everything", action="store_true", help="run tests marked slow too (make test-all)")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("slow") and not config.getoption("--everything"):
            item.add_marker(pytest.mark.skip(reason="slow: runs in make test-all"))
        if item.get_closest_marker("real_data") and not DATA:
            item.add_marker(pytest.mark.skip(reason="TRAINWITNESS_DATA is not set"))
        if item.get_closest_marker("cuda") and not torch.cuda.is_available():
            item.add_marker(pytest.mark.skip(reason="no CUDA device"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item):
    report = yield
    if report.skipped and DATA and item.get_closest_marker("real_data"):
        _skipped_real_data.append(item.nodeid)
    return report


def pytest_sessionfinish(session: pytest.Session) -> None:
    if _skipped_real_data:
        print(f"\nreal-data tests were skipped though TRAINWITNESS_DATA is set: {_skipped_real_data}")
        session.exitstatus = 1


@pytest.fixture
def data_folder() -> Path:
    assert DATA
    return Path(DATA)


def tiny_task(**changes: object) -> Task:
    """Softmax regression on 40 rows of 4 pixels: a State of 60 bytes, so that whole traces can be searched."""
    rng = np.random.default_rng(0)
    data = Dataset(
        "tiny", rng.integers(0, 256, (40, 4), dtype=np.uint8), rng.integers(0, 3, 40), IntegerBox(0, 255, 3), _unit
    )
    fields: dict[str, object] = {
        "model": lambda: nn.Linear(4, 3),
        "dataset": data,
        "loss": nn.functional.cross_entropy,
        "optimizer": lambda parameters, rate: torch.optim.SGD(parameters, lr=rate),
        "schedule": ShuffledEpochs(len(data), 8, 0.1, seed=0),
        "initialisation": "portable",
    }
    return Task(**(fields | changes))  # type: ignore[arg-type]


def _unit(inputs: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return inputs.to(dtype) / 255


@pytest.fixture
def make_trace(tmp_path: Path) -> Callable[..., Path]:
    """Records a tiny trace and returns its folder."""

    def make(name: str = "run.trace", steps: int = 7, chunk_steps: int = 3, **changes: object) -> Path:
        record(tiny_task(**changes), tmp_path / name, steps=steps, chunk_steps=chunk_steps)
        return tmp_path / name

    return make


@pytest.fixture(scope="session")
def sealed_files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The files of one sealed tiny trace, by name."""
    folder = tmp_path_factory.mktemp("sealed") / "run.trace"
    record(tiny_task(), folder, steps=7, chunk_steps=3)
    return {path.name: path.read_bytes() for path in folder.iterdir()}

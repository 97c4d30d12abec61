"""Rows of the same content under different indices."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from trainwitness import Dataset, build_task


def test_twins_are_rows_of_the_same_content() -> None:
    rows = Dataset("t", np.array([[1, 2], [3, 4], [1, 2], [1, 2]], np.uint8), np.array([0, 1, 0, 1]))
    assert dict(rows.twins) == {0: (2,), 2: (0,)}  # row 3 has another label


@pytest.mark.real_data
def test_adult_has_some(data_folder: Path) -> None:
    assert len(build_task("fcn-adult", data=data_folder).dataset.twins) == 47

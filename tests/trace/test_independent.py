"""docs/trace-format.md is complete: a reader written from it alone reads our traces."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

from tests.conftest import tiny_task
from tests.trace.independent_reader import canonical_row, read_trace, row_digest_root
from trainwitness import Trace, record

TASKS = {
    "sgd": {},
    "adam": {"optimizer": lambda p, lr: torch.optim.Adam(p, lr=lr)},
    "momentum": {"optimizer": lambda p, lr: torch.optim.SGD(p, lr=lr, momentum=0.9)},
    "half": {"model": lambda: nn.Sequential(nn.Linear(4, 3), _Flags())},
}


class _Flags(nn.Module):
    """Buffers of element widths 1 and 2."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.tensor([True, False, True]))
        self.register_buffer("short", torch.tensor([1.5, -2.0]).half())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x


@pytest.mark.parametrize("changes", TASKS.values(), ids=TASKS.keys())
@pytest.mark.parametrize("every", [1, 3])
def test_a_reader_written_from_the_document_agrees(tmp_path: Path, changes: dict[str, object], every: int) -> None:
    changes = {"initialisation": "torch", **changes}
    record(tiny_task(**changes), tmp_path / "t", steps=8, chunk_steps=3, checkpoint_every=every)
    ours, theirs = Trace.open(tmp_path / "t"), read_trace(tmp_path / "t")
    assert ours.seal is not None
    assert theirs.sealed
    assert theirs.step_root == ours.check().step_root == ours.seal.step_root
    digests = [ours.initial_state().digest().hex(), *(s.after.digest().hex() for s in ours.segments())]
    assert theirs.state_digests == digests
    assert [step["rows"] for step in theirs.steps] == [frame.record.rows for frame in ours.frames()]


def test_the_data_root_follows_from_the_document(make_trace: Callable[..., Path]) -> None:
    data = tiny_task().dataset
    rows = [canonical_row([one, label]) for one, label in zip(data.inputs, data.labels, strict=True)]
    assert row_digest_root(rows) == read_trace(make_trace()).data_root


def test_the_independent_reader_refuses_damage_too(make_trace: Callable[..., Path]) -> None:
    folder = make_trace()
    content = bytearray((folder / "chunk-000001.twc").read_bytes())
    content[100] ^= 1
    (folder / "chunk-000001.twc").write_bytes(content)
    with pytest.raises(ValueError, match="chunk-000001"):
        read_trace(folder)

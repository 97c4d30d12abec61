"""An honest owner's committed training, for attackers to start from; the attestation tests' owner and authority."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import save_file

from tests.attestation.conftest import authority, owner
from tests.commitments.test_commitment import NONCE
from tests.evidence.catalogue import Outcome
from tests.verification.forgery import EPS
from tests.verification.test_committed import committed_task
from trainwitness import State, Task, Verdict, record, verify
from trainwitness.commitments.commitment import Commitment, Committed

__all__ = ["authority", "owner"]

PLAIN, COMMITTED, BEFORE_NONCE = "no commitment", "committed", "committed, then a nonce"
STEPS = 8


@dataclass(frozen=True)
class World:
    """A task whose seeds are bound, its commitment, and the trace of its training."""

    task: Task
    commitment: Commitment
    trace: Path
    folder: Path

    def asked(self, trace: Path, settings: tuple[str, ...] = (PLAIN, COMMITTED, BEFORE_NONCE)) -> list[Outcome]:
        """What a verifier with the honest task and data answers about a trace, by what it asks for."""
        return answers(trace, self.task, self.commitment, settings)

    def model(self, state: State, name: str) -> Path:
        """A State as a model file."""
        path = self.folder / f"{name}.safetensors"
        save_file({key: tensor.clone() for key, tensor in state.part("param").items()}, path)
        return path


def answers(trace: Path, task: Task, commitment: Commitment, settings: tuple[str, ...]) -> list[Outcome]:
    """Verdicts with all that refuted them."""
    given = {PLAIN: None, COMMITTED: Committed(commitment), BEFORE_NONCE: Committed(commitment, nonce=NONCE)}
    return [
        outcome(setting, verify(trace, task=task, threshold=EPS, commitment=given[setting])) for setting in settings
    ]


def outcome(setting: str, verdict: Verdict) -> Outcome:
    """A verdict as the table tells it."""
    refuted = [f"`{n}`" for n, found in verdict.properties.items() if found.standing == "refuted" and n != "exact"]
    return Outcome(setting, verdict.verdict, ", ".join(refuted) or "nothing")


@pytest.fixture
def world(tmp_path: Path) -> Callable[..., World]:
    def make(steps: int = STEPS, **changes: Any) -> World:
        task, made = committed_task(**changes)
        record(task, tmp_path / "honest", steps=steps, chunk_steps=3)
        return World(task, made, tmp_path / "honest", tmp_path)

    return make

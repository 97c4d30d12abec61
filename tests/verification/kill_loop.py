"""Kills recorders at random moments, over and over; what is left must open and verify.

    python -m tests.verification.kill_loop --rounds 1000

Each round forks a recorder from this process (so PyTorch is loaded once), kills it with SIGKILL after a random time,
and checks the folder. Some rounds resume what the round before left.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import tempfile
import time
from collections import Counter
from pathlib import Path

import torch
import torch._dynamo  # the first optimiser step would import it, for a second or two, in every child

from tests.conftest import tiny_task
from trainwitness import Trace, record, verify
from trainwitness.core.errors import TraceDamaged
from trainwitness.trace.format import MANIFEST


def kill_round(folder: Path, rng: random.Random, *, resume: bool) -> int | None:
    """Records in a child, kills it, checks the rest. Returns the steps that verified; None if none were begun."""
    child = os.fork()
    if child == 0:  # pragma: no cover - dies by SIGKILL
        try:
            torch.set_num_threads(1)
            record(tiny_task(), folder, steps=10**9, chunk_steps=rng.randrange(1, 9), resume=resume)
        finally:
            os._exit(9)
    time.sleep(rng.random() * 0.6)
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status), "the recorder ended by itself"
    if not (folder / MANIFEST).exists():
        return None
    trace = Trace.open(folder)
    assert not trace.sealed
    checked = trace.check()
    if checked.steps == 0:
        return 0
    verdict = verify(folder, task=tiny_task())
    assert verdict.verdict == "INCONCLUSIVE", verdict.reasons
    assert verdict.max_l2 == 0
    assert len(verdict.steps) == checked.steps
    assert all(found.standing != "refuted" for found in verdict.properties.values())
    return checked.steps


def run(rounds: int, seed: int = 0) -> Counter[str]:
    """Many rounds; counts what was left."""
    rng, counts = random.Random(seed), Counter[str]()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as base:
        folder = Path(base) / "t"
        for _ in range(rounds):
            resume = folder.exists() and rng.random() < 0.5
            if not resume:
                shutil.rmtree(folder, ignore_errors=True)
            try:
                steps = kill_round(folder, rng, resume=resume)
            except TraceDamaged:
                counts["DAMAGED"] += 1
                raise
            counts["nothing begun" if steps is None else "no whole chunk" if steps == 0 else "verified"] += 1
            counts["steps verified"] += steps or 0
            if steps is not None and steps > 3000:
                shutil.rmtree(folder)
    return counts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    print(dict(run(arguments.rounds, arguments.seed)))


if __name__ == "__main__":
    main()

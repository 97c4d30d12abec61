"""Results of every verb on one small run, made once as a user makes them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tests.cli.test_cli import run
from trainwitness import build_task

VERBS = (
    "record mlp-digits --out run.trace --steps 40 --json record.json",
    "calibrate run.trace --out cal.json --steps 10 --repeats 6",
    "verify run.trace --precision float64 --threshold 1e-6 --json verify.json",
    "inspect run.trace --json inspect.json",
    "diff run.trace run.trace --json diff.json",
    "play mlp-digits --rounds 2 --steps 5 --threshold 1e-6 --attack neighbour --json play.json",
    "forge run.trace --step 10 --fraction 0.05 --attack neighbour --out forged.trace --json forge.json",
    "pack run.trace --out p.zip --json pack.json",
    "tasks --json tasks.json",
    "reproduce shuffle --quick --json reproduce.json",
    "reproduce hardware --quick --json hardware.json",
    "commit softmax-digits --out data.commit --json commit.json",
    "row softmax-digits --index 3 --out row.bin --json row.json",
    "prove-member data.commit softmax-digits --index 3 --out member.proof --json prove.json",
    "check-proof member.proof --commitment data.commit --row row.bin --json proof.json",
    "certificate run.trace --step 3 --pool 150 --json certificate.json",
    "record softmax-digits --out exact.trace --steps 5 --precision exact",
    "verify exact.trace --json exact.json",
)
FINDING = (
    "verify forged.trace --calibration cal.json --json rejected.json",
    "claim run.trace --example mine.npy --json claim.json",
    "leak softmax-digits --batch-size 2 --iterations 1 --restarts 1 --json leak.json",
)


def make_results(folder: Path) -> list[Path]:
    """Runs every verb and returns the JSON files."""
    np.save(folder / "mine.npy", build_task("mlp-digits").dataset.inputs[5])
    for command in VERBS:
        run(*command.split(), cwd=folder)
    for command in FINDING:
        run(*command.split(), cwd=folder, code=1)
    return sorted(folder.glob("*.json"))

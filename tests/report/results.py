"""Results of every verb on one small run, made once as a user makes them."""

from __future__ import annotations

from pathlib import Path

from tests.cli.test_cli import run

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
)
FINDING = ("verify forged.trace --calibration cal.json --json rejected.json",)


def make_results(folder: Path) -> list[Path]:
    """Runs every verb and returns the JSON files."""
    for command in VERBS:
        run(*command.split(), cwd=folder)
    for command in FINDING:
        run(*command.split(), cwd=folder, code=1)
    return sorted(folder.glob("*.json"))

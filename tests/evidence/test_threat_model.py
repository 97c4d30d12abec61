"""The table in docs/threat-model.md is what the tests assert."""

from __future__ import annotations

import subprocess
import sys

from tests.evidence.catalogue import DOCUMENT
from tests.trace.test_crash import ROOT

KNOWN = (
    "optimiser-state injection", "infinitesimal learning rate", "optimised-noise spoofing", "data-order replay",
    "splicing", "truncation", "substituted initialisation", "swapped labels", "one row with two contents",
    "replayed timestamp", "another payload type", "a commitment made after training",
)  # fmt: skip


def test_the_table_is_up_to_date() -> None:
    """In a process of its own, where the attacks are imported in their order."""
    code = "from tests.evidence.catalogue import *; text = DOCUMENT.read_text(); assert with_table(text) == text"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"run `python -m tests.evidence.catalogue`\n{done.stderr[-500:]}"


def test_every_attack_is_in_it() -> None:
    text = DOCUMENT.read_text()
    assert not [name for name in KNOWN if name not in text]

"""Kills owners while they commit and attest, over and over; what is left must be whole or not there.

    python -m tests.evidence.kill_loop --rounds 1000

Each round forks an owner from this process, who commits, proves and attests without end, kills it with SIGKILL after
a random time, and reads every file it left.
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import shutil
import signal
import tempfile
import time
from collections import Counter
from pathlib import Path

from safetensors.torch import save_file

from tests.conftest import tiny_task
from trainwitness import Trace, record
from trainwitness.attestation.check import check_attestation
from trainwitness.attestation.dsse import seal
from trainwitness.attestation.keys import load_private, load_public, make_key
from trainwitness.attestation.statements import training_claim
from trainwitness.commitments.commitment import commit, read_commitment, write_commitment
from trainwitness.commitments.proofs import parse_proof, prove_member
from trainwitness.commitments.sources import rows_of
from trainwitness.core.files import TEMPORARY, write_new
from trainwitness.core.records import dump


def owner_at_work(home: Path, out: Path) -> None:
    """Writes evidence of every kind until killed."""
    rows, trace, key = rows_of(tiny_task().dataset), Trace.open(home / "t"), load_private(home / "k")
    for number in itertools.count():
        made = write_commitment(
            out / f"{number}.commit", lambda file: commit(rows, leaves=file), out / f"{number}.leaves"
        )
        write_new(out / f"{number}.proof", dump(prove_member(made, rows, number % 40))[0], "proving")
        envelope = seal(training_claim(trace, home / "m", commitment=made).to_bytes(), key)
        write_new(out / f"{number}.claim", envelope.model_dump_json().encode(), "attesting")


def check_files(home: Path, out: Path, counts: Counter[str]) -> None:
    """Every file that has its name is whole."""
    for path in out.iterdir():
        counts[path.suffix] += 1
        content = path.read_bytes()
        if path.suffix == ".commit":
            assert read_commitment(path).data.rows == 40
            assert path.with_suffix(".leaves").stat().st_size == 40 * 32
        elif path.suffix == ".proof":
            parse_proof(content, path.name)
        elif path.suffix == ".claim":
            assert check_attestation(content, path.name, load_public(home / "k.pub"), model=home / "m").good
        else:
            assert path.suffix in (".leaves", TEMPORARY)


def run(rounds: int, seed: int = 0) -> Counter[str]:
    """Many rounds; counts what was left."""
    rng, counts = random.Random(seed), Counter[str]()
    with tempfile.TemporaryDirectory() as base:
        home, out = Path(base) / "home", Path(base) / "out"
        home.mkdir()
        record(tiny_task(), home / "t", steps=3)
        save_file({n: t.clone() for n, t in Trace.open(home / "t").final_state().part("param").items()}, home / "m")
        make_key(home / "k", "ed25519")
        for _ in range(rounds):
            shutil.rmtree(out, ignore_errors=True)
            out.mkdir()
            child = os.fork()
            if child == 0:  # pragma: no cover - dies by SIGKILL
                try:
                    owner_at_work(home, out)
                finally:
                    os._exit(9)
            while rng.random() < 0.99 and not (out / "0.claim").exists():  # mostly not before everything was begun
                time.sleep(0.002)
            time.sleep(rng.random() * 0.05)
            os.kill(child, signal.SIGKILL)
            _, status = os.waitpid(child, 0)
            assert os.WIFSIGNALED(status), "the owner ended by itself"
            check_files(home, out, counts)
            counts["rounds"] += 1
    return counts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    print(dict(run(arguments.rounds, arguments.seed)))


if __name__ == "__main__":
    main()

"""Committing against hashing the same rows one by one with hashlib; memory.

python -m benchmarks.commitment [--rows 1000000] [--size 1024]
"""

from __future__ import annotations

import argparse
import hashlib
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from benchmarks.side_by_side import alternate, table
from trainwitness.commitments.commitment import Rows, commit
from trainwitness.commitments.merkle import Frontier
from trainwitness.commitments.sources import rows_of
from trainwitness.tasks.dataset import Dataset


def one_by_one(rows: Callable[[], Iterator[bytes]]) -> None:
    sha = hashlib.sha256
    for row in rows():
        sha(row).digest()


def bare_tree(rows: Callable[[], Iterator[bytes]]) -> None:
    tree = Frontier()
    for row in rows():
        tree.append(row)


def compare(name: str, rows: Rows, tree: Callable[[], object], rounds: int, count: int) -> list[str]:
    result = alternate(lambda: one_by_one(rows.iterate), tree, rounds=rounds)
    each = [1e6 * statistics.median(times) / count for times in (result.a, result.b)]
    return [name, f"{each[0]:.2f}", f"{each[1]:.2f}", f"**{1 / result.ratio:.0%}**", str(rounds)]


PEAK = """
import sys, tracemalloc
from pathlib import Path
from trainwitness.commitments.commitment import commit
from trainwitness.commitments.sources import open_rows
from trainwitness import TaskSpec
folder = Path(sys.argv[1])
rows, peak = open_rows(TaskSpec(name=str(folder / "x.npy")), labels=folder / "y.npy"), 0
def watch(_):
    global peak
    lines = Path("/proc/self/status").read_text().splitlines()
    peak = max(peak, *(int(line.split()[1]) for line in lines if line.startswith("RssAnon")))
commit(rows, on_rows=watch)
plain = peak
tracemalloc.start()
commit(rows, key=bytes(32))
print(plain / 1024, tracemalloc.get_traced_memory()[1] / 1e6)
"""


def memory(folder: Path, count: int, size: int) -> list[str]:
    """The process's own memory (a mapped file's pages are the system's to drop), and what the sorted tree adds."""
    write(folder, count, size)
    done = subprocess.run([sys.executable, "-c", PEAK, str(folder)], capture_output=True, text=True, check=True)
    plain, more = map(float, done.stdout.split())
    return [f"{count:,}", f"{count * size / 1e6:.0f}", f"{plain:.0f}", f"{more:.1f}"]


def write(folder: Path, count: int, size: int) -> Dataset:
    """Random rows in files, written piece by piece."""
    rng = np.random.default_rng(0)
    inputs = np.lib.format.open_memmap(folder / "x.npy", "w+", np.uint8, (count, size))
    for at in range(0, count, 65536):
        inputs[at : at + 65536] = rng.integers(0, 256, inputs[at : at + 65536].shape, dtype=np.uint8)
    labels = np.zeros(count, np.int64)
    np.save(folder / "y.npy", labels)
    return Dataset("made-up", np.load(folder / "x.npy", mmap_mode="r"), labels)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--size", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    count, size, rounds = arguments.rows, arguments.size, arguments.rounds
    with tempfile.TemporaryDirectory() as folder:
        stored = rows_of(write(Path(folder), count, size))
        contents = list(stored.iterate())
        ready = Rows("ready", "bytes", lambda: iter(contents))
        rows = [
            compare("rows of a mapped file", stored, lambda: commit(stored), rounds, count),
            compare("rows ready in memory", ready, lambda: commit(ready), rounds, count),
            compare("rows ready, node by node", ready, lambda: bare_tree(ready.iterate), rounds, count),
            compare("mapped file, with the sorted tree", stored, lambda: commit(stored, key=bytes(32)), 3, count),
        ]
    header = [f"{count:,} rows of {size} bytes", "hashlib, us/row", "commit, us/row", "speed", "rounds"]
    print(table(header, rows), flush=True)
    with tempfile.TemporaryDirectory() as folder:
        memories = [memory(Path(folder), count // part, size) for part in (100, 1)]
    print("\n" + table(["rows", "MB of rows", "memory of the process, MB", "added by --secret, MB"], memories))


if __name__ == "__main__":
    main()

"""What exact arithmetic costs: time and memory against ordinary float32, and what its traces weigh.

python -m benchmarks.exact [--data DIR] [--device cuda] [--quick] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch

from benchmarks.side_by_side import alternate, table
from trainwitness import Numerics, Stepper, TaskSpec, Trace, build_task, record
from trainwitness.core.environment import current_environment
from trainwitness.training.exact.leaf import UNFINISHED, PendingLeaf

CPU = {"lenet-mnist": (100, 40, 9, 5.0), "fcn-adult": (1000, 200, 9, 3.0)}
GPU = {"lenet-mnist": (100, 100, 9, 8.0), "vggmini-cifar10": (100, 50, 5, 4.0)}
"""Batch size, steps per round, rounds, largest ratio wanted."""

Row = dict[str, Any]


def speed(name: str, size: int, steps: int, rounds: int, wanted: float, device: str, data: Path | None) -> list[Row]:
    """Plain float32 steps against exact ones, alternately; then the same with a leaf per step, as when recording."""
    task = build_task(TaskSpec(name=name, options={"batch_size": size}), data=data)
    batches = [task.schedule.batch(step) for step in range(steps)]
    ordinary, exact = (Stepper(task, Numerics(precision=p, device=device)) for p in ("float32", "exact"))

    def go(stepper: Stepper, *, leaves: bool = False) -> None:
        pending: list[PendingLeaf] = []
        for batch in batches:
            stepper.run(batch)
            if leaves:  # as the recorder does: leaves are hashed while the next steps run
                pending.append(stepper.begin_leaf(batch.step))
                if len(pending) > UNFINISHED:
                    pending.pop(0).result()
        for leaf in pending:
            leaf.result()
        if device != "cpu":
            torch.cuda.synchronize()

    rows = []
    for what, leaves in (("steps", False), ("steps and leaves", True)):
        result = alternate(lambda: go(ordinary), lambda leaves=leaves: go(exact, leaves=leaves), rounds=rounds)
        milliseconds = [1e3 * statistics.median(times) / steps for times in (result.a, result.b)]
        rows.append(
            {"task": name, "batch": size, "what": what, "float32, ms": milliseconds[0], "exact, ms": milliseconds[1]}
            | {"ratio": result.ratio, "at most": wanted, "rounds": rounds}
        )
    return rows


PEAK = """
import sys
from pathlib import Path
import torch
from trainwitness import Numerics, Stepper, TaskSpec, build_task
name, size, precision, device, data = *sys.argv[1:5], Path(sys.argv[5]) if sys.argv[5] else None
task = build_task(TaskSpec(name=name, options={"batch_size": int(size)}), data=data)
def peak():
    if device != "cpu":
        return torch.cuda.max_memory_allocated()
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024
before = peak()
stepper = Stepper(task, Numerics(precision=precision, device=device))
for step in range(4):
    stepper.run(task.schedule.batch(step))
print(before, peak())
"""


def memory(name: str, size: int, device: str, data: Path | None) -> Row:
    """Peak memory of whole processes (on a GPU, of its tensors), and what training added to it."""
    found = {}
    for precision in ("float32", "exact"):
        command = [sys.executable, "-c", PEAK, name, str(size), precision, device, str(data or "")]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        before, peak = (int(word) for word in done.stdout.split())
        found[precision] = (peak, peak - before)
    return {
        "task": name,
        "batch": size,
        "float32, MB": found["float32"][0] / 1e6,
        "exact, MB": found["exact"][0] / 1e6,
        "ratio": found["exact"][0] / found["float32"][0],
        "ratio of what training added": found["exact"][1] / max(found["float32"][1], 1),
        "at most": 4.0,
    }


def sizes(name: str, steps: int, data: Path | None) -> list[Row]:
    """Bytes of a float32 trace, an exact one, and an exact one with its rows written down."""
    task, rows = build_task(TaskSpec(name=name, options={"batch_size": 100}), data=data), []
    exact = Numerics(precision="exact")
    kinds: dict[str, dict[str, Any]] = {
        "float32": {},
        "exact": {"numerics": exact},
        "exact, explicit rows": {"numerics": exact, "explicit_rows": True},
    }
    for kind, settings in kinds.items():
        with tempfile.TemporaryDirectory() as folder:
            record(task, Path(folder) / "t", steps=steps, **settings)
            stored = Trace.open(Path(folder) / "t").check().stored_bytes
        rows.append({"task": name, "steps": steps, "trace": kind, "kB": stored / 1e3})
        rows[-1]["times smaller"] = rows[0]["kB"] / rows[-1]["kB"]
    return rows


def show(rows: list[Row]) -> None:
    cells = [[f"{value:.3g}" if isinstance(value, float) else str(value) for value in row.values()] for row in rows]
    print(table(list(rows[0]), cells) + "\n", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=None)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--quick", action="store_true", help="lenet-digits only, no data needed")
    parser.add_argument("--json", type=Path, default=None, help="also write the figures as JSON")
    arguments = parser.parse_args()
    device, data = arguments.device, arguments.data
    cases = {"lenet-digits": (100, 5, 3, 5.0)} if arguments.quick else CPU if device == "cpu" else GPU
    found: dict[str, Any] = {"environment": current_environment().model_dump(), "device": device}
    found["speed"] = [row for name, case in cases.items() for row in speed(name, *case, device, data)]
    show(found["speed"])
    found["memory"] = [memory(name, case[0], device, data) for name, case in cases.items()]
    show(found["memory"])
    if device == "cpu":
        name = next(iter(cases))
        found["sizes"] = sizes(name, 100 if arguments.quick else 1000, data)
        show(found["sizes"])
    if arguments.json:
        arguments.json.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()

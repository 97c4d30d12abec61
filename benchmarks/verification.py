"""What verification costs against the plain training loop; what vectorising small models gains; memory and start-up.

python -m benchmarks.verification [--data DIR] [--quick]
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.side_by_side import alternate, table
from trainwitness import State, Stepper, TaskSpec, build_task, record, verify
from trainwitness.training.vectorised import VectorisedSteps
from trainwitness.verification.distance import Ruler

CASES = {"lenet-mnist": (1500, 7), "vggmini-cifar10": (40, 3)}
"""Steps per round, rounds."""


def compare(name: str, steps: int, rounds: int, data: Path | None) -> list[str]:
    task = build_task(TaskSpec(name=name, options={"batch_size": 100}), data=data)
    stepper, start = Stepper(task), Stepper(task).state()

    def plain() -> None:
        stepper.load(start)
        for step in range(steps):
            stepper.run(task.schedule.batch(step))

    with tempfile.TemporaryDirectory() as folder:
        record(task, Path(folder) / "t", steps=steps)
        result = alternate(plain, lambda: verify(Path(folder) / "t", task=task), rounds=rounds)
    per_step = [1e3 * statistics.median(times) / steps for times in (result.a, result.b)]
    return [name, str(steps), f"{per_step[0]:.2f}", f"{per_step[1]:.2f}", f"**{result.ratio:.3f}**", str(rounds)]


def vectorised(steps: int, rounds: int, data: Path | None) -> list[str]:
    """The recomputation alone: one by one through the step function, or 64 at once."""
    task = build_task(TaskSpec(name="fcn-adult", options={"batch_size": 100}), data=data)
    stepper = Stepper(task)
    states, batches = [stepper.state()], [task.schedule.batch(step) for step in range(steps)]
    for batch in batches:
        stepper.run(batch)
        states.append(stepper.state())
    at_once = VectorisedSteps(stepper)

    def one_by_one() -> None:
        for state, batch in zip(states, batches, strict=False):
            stepper(state, batch)

    def together() -> list[State]:
        return [s for k in range(0, steps, 64) for s in at_once(states[k : k + 64], batches[k : k + 64])]

    result = alternate(together, one_by_one, rounds=rounds)
    ruler = Ruler("float32", "float32")
    worst = max(ruler(a, b).l2 for a, b in zip(states[1:], together(), strict=True))
    per_step = [1e3 * statistics.median(times) / steps for times in (result.b, result.a)]
    return [f"{per_step[0]:.3f}", f"{per_step[1]:.3f}", f"**{result.ratio:.1f}**", f"{worst:.1e}", str(rounds)]


PEAK = """
import sys
from pathlib import Path
from trainwitness import verify
verify(sys.argv[1], one_by_one=True)
peak = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
print(int(peak.split()[1]) / 1024)
"""


def memory() -> list[list[str]]:
    """Peak memory of verifying 100 to 10,000 steps."""
    rows = []
    for steps in (100, 10_000):
        with tempfile.TemporaryDirectory() as folder:
            record(build_task("mlp-digits"), Path(folder) / "t", steps=steps)
            command = [sys.executable, "-c", PEAK, str(Path(folder) / "t")]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
        rows.append([f"{steps:,}", f"{float(done.stdout):.0f}"])
    return rows


START = """
import sys, time
started = float(sys.argv[2])
import trainwitness.verification.verify as module
def first(self, *arguments):
    print(time.time() - started, flush=True)
    sys.exit(0)
module.Recomputer._one = first
sys.argv = ["trainwitness", "verify", sys.argv[1]]
from trainwitness.cli.main import main
main()
"""


def start_up(rounds: int) -> list[str]:
    """Seconds from starting the command to the first recomputed step, and of --help."""
    program = str(Path(sys.executable).with_name("trainwitness"))
    verifies, helps = [], []
    with tempfile.TemporaryDirectory() as folder:
        record(build_task("lenet-digits"), Path(folder) / "t", steps=5)
        for _ in range(rounds):
            command = [sys.executable, "-c", START, str(Path(folder) / "t"), str(time.time())]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            verifies.append(float(done.stdout.split()[0]))
            started = time.perf_counter()
            subprocess.run([program, "--help"], capture_output=True, check=True)
            helps.append(time.perf_counter() - started)
    return [f"{statistics.median(verifies):.2f}", f"{statistics.median(helps):.2f}", str(rounds)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=None)
    parser.add_argument("--quick", action="store_true", help="lenet-digits only, no data needed")
    arguments = parser.parse_args()
    cases = {"lenet-digits": (64, 3)} if arguments.quick else CASES
    header = ["task (b=100, CPU)", "steps", "plain loop, ms/step", "verify, ms/step", "ratio", "rounds"]
    print(table(header, [compare(name, *case, arguments.data) for name, case in cases.items()]), flush=True)
    if not arguments.quick:
        header = ["fcn-adult: one by one, ms/step", "64 at once, ms/step", "ratio", "largest l2 difference", "rounds"]
        print("\n" + table(header, [vectorised(512, 9, arguments.data)]), flush=True)
        print("\n" + table(["steps verified (mlp-digits)", "peak, MB"], memory()), flush=True)
    print("\n" + table(["first step of verify, s", "--help, s", "rounds"], [start_up(7)]))


if __name__ == "__main__":
    main()

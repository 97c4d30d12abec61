"""What recording every step costs: time against the same training without it, and extra memory.

python -m benchmarks.recording [--data DIR] [--quick]
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.side_by_side import alternate, table
from trainwitness import Recorder, Stepper, TaskSpec, build_task
from trainwitness.trace.record import dataset_facts

CASES = {"lenet-mnist": (384, 9), "vggmini-cifar10": (12, 3), "fcn-adult": (1024, 5)}
"""Steps per round, rounds."""


def compare(task_name: str, steps: int, rounds: int, data: Path | None) -> list[str]:
    task = build_task(TaskSpec(name=task_name, options={"batch_size": 100}), data=data)
    facts, stepper, start = dataset_facts(task.dataset), Stepper(task), Stepper(task).state()

    def plain() -> None:
        stepper.load(start)
        for step in range(steps):
            stepper.run(task.schedule.batch(step))

    def recorded() -> None:
        stepper.load(start)
        folder = Path(tempfile.mkdtemp(prefix="bench-"))
        live = stepper.live
        try:
            with Recorder(folder, model=live.model, optimizer=live.optimizer, data=facts) as recorder:
                for step in range(steps):
                    stepper.run(task.schedule.batch(step), recorder.batch)
        finally:
            shutil.rmtree(folder)

    result = alternate(plain, recorded, rounds=rounds)
    per_step = [1e3 * statistics.median(times) / steps for times in (result.a, result.b)]
    return [task_name, f"{per_step[0]:.2f}", f"{per_step[1]:.2f}", f"**{result.ratio:.3f}**", str(rounds)]


PEAK = """
import sys, tempfile
from pathlib import Path
from trainwitness import Recorder, Stepper, TaskSpec, build_task
from trainwitness.trace.record import dataset_facts
mode, name, steps, data = sys.argv[1], sys.argv[2], int(sys.argv[3]), Path(sys.argv[4]) if sys.argv[4] else None
task = build_task(TaskSpec(name=name, options={"batch_size": 100}), data=data)
facts, stepper = dataset_facts(task.dataset), Stepper(task)
for step in range(3):
    stepper.run(task.schedule.batch(step))
if mode == "plain":
    for step in range(steps):
        stepper.run(task.schedule.batch(step))
else:
    with tempfile.TemporaryDirectory() as folder:
        with Recorder(folder, model=stepper.live.model, optimizer=stepper.live.optimizer, data=facts) as recorder:
            for step in range(steps):
                stepper.run(task.schedule.batch(step), recorder.batch)
peak = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
print(int(peak.split()[1]) * 1024, stepper.state().nbytes)
"""


def memory(task_name: str, steps: int, rounds: int, data: Path | None) -> list[str]:
    """Peak memory of whole processes, with and without recording, in turn."""
    extra, state = [], 1
    for _ in range(rounds):
        peaks = {}
        for mode in ("plain", "recorded"):
            command = [sys.executable, "-c", PEAK, mode, task_name, str(steps), str(data or "")]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            peaks[mode], state = (int(word) for word in done.stdout.split())
        extra.append(peaks["recorded"] - peaks["plain"])
    middle = statistics.median(extra)
    return [task_name, f"{state / 1e6:.1f}", f"{middle / 1e6:.1f}", f"**{middle / state:.1f}**", str(rounds)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=None)
    parser.add_argument("--quick", action="store_true", help="lenet-digits only, no data needed")
    arguments = parser.parse_args()
    cases = {"lenet-digits": (50, 3)} if arguments.quick else CASES
    header = ["task (b=100, CPU)", "plain, ms/step", "recorded, ms/step", "ratio", "rounds"]
    print(table(header, [compare(name, *case, arguments.data) for name, case in cases.items()]), flush=True)
    name = "lenet-digits" if arguments.quick else "vggmini-cifar10"
    print(
        "\n"
        + table(["task", "State, MB", "extra peak, MB", "in States", "rounds"], [memory(name, 6, 3, arguments.data)])
    )


if __name__ == "__main__":
    main()

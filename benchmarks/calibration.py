"""What a calibration costs: 10 repeats of 50 sampled steps against one pass over those steps.

python -m benchmarks.calibration [--data DIR] [--quick]
"""

from __future__ import annotations

import argparse
import statistics
from pathlib import Path

from benchmarks.side_by_side import alternate, table
from trainwitness import Stepper, TaskSpec, build_task, calibrate


def compare(name: str, rounds: int, data: Path | None) -> list[str]:
    task = build_task(TaskSpec(name=name, options={"batch_size": 100}), data=data)
    stepper, start = Stepper(task), Stepper(task).state()

    def one_pass() -> None:
        stepper.load(start)
        for step in range(50):
            stepper.run(task.schedule.batch(step))

    result = alternate(one_pass, lambda: calibrate(task, repeats=10, steps=50), rounds=rounds)
    seconds = [statistics.median(times) for times in (result.a, result.b)]
    return [name, f"{seconds[0]:.2f}", f"{seconds[1]:.2f}", f"**{result.ratio:.1f}**", str(rounds)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=None)
    parser.add_argument("--quick", action="store_true", help="lenet-digits, no data needed")
    arguments = parser.parse_args()
    header = ["task (b=100, CPU)", "one pass over 50 steps, s", "calibrate, s", "ratio", "rounds"]
    print(table(header, [compare("lenet-digits" if arguments.quick else "lenet-mnist", 7, arguments.data)]))


if __name__ == "__main__":
    main()

"""What verification costs against the plain training loop; what vectorising small models gains; memory and start-up.

python -m benchmarks.verification [--data DIR] [--quick]
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from pathlib import Path

from benchmarks.side_by_side import alternate, table
from trainwitness import Stepper, TaskSpec, build_task, record, verify

CASES = {"lenet-mnist": (768, 9), "vggmini-cifar10": (16, 5)}
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=None)
    parser.add_argument("--quick", action="store_true", help="lenet-digits only, no data needed")
    arguments = parser.parse_args()
    cases = {"lenet-digits": (64, 3)} if arguments.quick else CASES
    header = ["task (b=100, CPU)", "steps", "plain loop, ms/step", "verify, ms/step", "ratio", "rounds"]
    print(table(header, [compare(name, *case, arguments.data) for name, case in cases.items()]), flush=True)


if __name__ == "__main__":
    main()

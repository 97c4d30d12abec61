"""What the attacks cost: candidates scored against one backward pass each, and swap-search against greedy search.

python -m benchmarks.forging [--data DIR] [--quick] [--device cuda]
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path

from benchmarks.side_by_side import table
from trainwitness import Numerics, Stepper, TaskSpec, build_task
from trainwitness.forging import efficient_greedy, greedy
from trainwitness.forging.forge import attack
from trainwitness.forging.problem import Problem, make_problem

STAGE = 300
PUBLISHED = 1000
"""Candidates that the published way is timed on; more are scaled."""


def problem(name: str, data: Path | None, pool: int, device: str = "cpu") -> Problem:
    task = build_task(TaskSpec(name=name, options={"batch_size": 100}), data=data)
    stepper = Stepper(task, Numerics(device=device))
    for step in range(STAGE):
        stepper.run(task.schedule.batch(step))
    before, batch = stepper.state(), task.schedule.batch(STAGE)
    return make_problem(
        stepper, before, stepper(before, batch), batch, positions=range(100), pool_size=pool, seconds=1e9
    )


def scoring(name: str, data: Path | None, rounds: int, published: int) -> list[list[str]]:
    """Seconds to score M candidate batches, everything included."""
    asked = problem(name, data, pool=1000)
    ratios: dict[int, list[float]] = {1_000: [], 100_000: []}
    seconds: dict[str, list[float]] = {"published": [], "1000": [], "100000": []}
    for _ in range(rounds):
        started = time.perf_counter()
        greedy.forge(asked, published)
        one_by_one = (time.perf_counter() - started) / published
        seconds["published"].append(one_by_one)
        for count, found in ratios.items():
            started = time.perf_counter()
            efficient_greedy.forge(asked, count)
            seconds[str(count)].append(time.perf_counter() - started)
            found.append(one_by_one * count / seconds[str(count)][-1])
    published_ms = 1e3 * statistics.median(seconds["published"])
    rows = []
    for count, found in ratios.items():
        median = statistics.median(seconds[str(count)])
        ratio = f"**{statistics.median(found):.0f}**"
        rows.append([f"{count:,}", f"{published_ms * count / 1e3:.1f}", f"{median:.2f}", ratio, str(rounds)])
    return rows


def strength(name: str, data: Path | None, device: str) -> list[str]:
    """swap-search against the best of 100,000 random batches."""
    asked = problem(name, data, pool=1300 if "digits" in name else 2000, device=device)
    random, swapped = attack(asked, "efficient-greedy"), attack(asked, "swap-search")
    pursued = attack(asked, "matching-pursuit")
    pairs = [(f"{found.error:.2e}", f"{found.cost.seconds:.1f}") for found in (random, swapped, pursued)]
    return [name, *(cell for pair in pairs for cell in pair), f"**{swapped.error / random.error:.3f}**"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=None)
    parser.add_argument("--quick", action="store_true", help="lenet-digits, no data needed")
    parser.add_argument("--device", default="cpu", help="with cuda: only vggmini-cifar10, only strength")
    arguments = parser.parse_args()
    tasks = ["lenet-mnist", "softmax-mnist", "mlp-mnist", "softmax-cifar10"]
    if arguments.device == "cpu":
        name = "lenet-digits" if arguments.quick else "lenet-mnist"
        header = ["candidates", "one backward pass each, s", "efficient-greedy, s", "ratio", "rounds"]
        rows = scoring(name, arguments.data, 1 if arguments.quick else 5, 100 if arguments.quick else PUBLISHED)
        print(f"{name}, b = 100, n = 1000\n\n" + table(header, rows), flush=True)
        tasks = [name] if arguments.quick else tasks
    else:
        tasks = ["vggmini-cifar10"]
    header = ["task (b=100)", "greedy, M = 100,000", "s", "swap-search", "s", "matching-pursuit", "s", "error ratio"]
    print("\n" + table(header, [strength(task, arguments.data, arguments.device) for task in tasks]))


if __name__ == "__main__":
    main()

"""What restoring labels costs, and restarts of input reconstruction in one batch against one by one.

python -m benchmarks.leakage [--data DIR] [--device cuda] [--quick]
"""

from __future__ import annotations

import argparse
import functools
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from benchmarks.side_by_side import alternate, table
from trainwitness import Numerics, Stepper, build_task
from trainwitness.leakage.inputs import dlg, ig
from trainwitness.leakage.inputs.target import Target
from trainwitness.leakage.labels import rlg
from trainwitness.leakage.labels.final_layer import FinalLayer
from trainwitness.leakage.labels.metrics import ln_acc
from trainwitness.leakage.labels.restorer import restore

CLASSES, FEATURES, EXAMPLES = 1000, 2048, 4096


def wide_layer() -> tuple[FinalLayer, FinalLayer, np.ndarray]:
    """The last layer of an untrained ResNet-50 on 1000 classes, its gradient for 4096 examples, and the truth."""
    rng = torch.Generator().manual_seed(0)
    bound = FEATURES**-0.5
    weight = (torch.rand(CLASSES, FEATURES, generator=rng, dtype=torch.float64) * 2 - 1) * bound
    bias = (torch.rand(CLASSES, generator=rng, dtype=torch.float64) * 2 - 1) * bound
    common = torch.rand(FEATURES, generator=rng, dtype=torch.float64) + 0.4
    embeddings = common * (1 + 0.1 * torch.randn(EXAMPLES, FEATURES, generator=rng, dtype=torch.float64))
    labels = torch.randint(CLASSES, (EXAMPLES,), generator=rng)
    slope = torch.softmax(embeddings @ weight.T + bias, 1)
    slope[torch.arange(EXAMPLES), labels] -= 1
    gradient = FinalLayer.of((slope.T @ embeddings / EXAMPLES).float(), slope.mean(0).float())
    return FinalLayer.of(weight, bias), gradient, np.bincount(labels.numpy(), minlength=CLASSES)


def labels(rounds: int, programs: int) -> str:
    layer, gradient, truth = wide_layer()
    rows = []
    for name, goal in (("pooled", "0.1"), ("ilrg", "1")):
        seconds = []
        for _ in range(rounds):
            started = time.perf_counter()
            found = restore(name, gradient, layer, EXAMPLES)
            seconds.append(time.perf_counter() - started)
        accuracy = ln_acc(found, truth)
        rows.append([name, f"**{statistics.median(seconds):.3f}**", goal, f"{accuracy:.3f}", str(rounds)])
    started = time.perf_counter()
    points = rlg.points(gradient, EXAMPLES)
    decomposed = time.perf_counter()
    for c in range(programs):
        rlg.separable(points, c)
    each = (time.perf_counter() - decomposed) / programs
    rows.append(
        [
            f"rlg ({programs} of {CLASSES} programs, scaled)",
            f"{decomposed - started + CLASSES * each:.0f}",
            "-",
            "-",
            "1",
        ]
    )
    return table(["method", "s", "target", "LnAcc", "rounds"], rows)


def restarts(data: Path | None, device: str, rounds: int, count: int, steps: int) -> str:
    """The same iterations for `count` restarts: one call each, against all in one call."""
    task = build_task("sigmoid-cifar100" if data else "sigmoid-digits", data=data)
    stepper = Stepper(task, Numerics(device=device))
    target = Target.of_rows(stepper, stepper.state(), [3])
    rows = []
    for name, attack in (("dlg", dlg.reconstruct), ("ig", ig.reconstruct)):
        search = functools.partial(attack, target, target.labels_of([3]), steps=steps, stop=False)
        found = alternate(
            functools.partial(search, restarts=count),
            functools.partial(_one_by_one, search, count),
            rounds=rounds,
        )
        slow, fast = (count / statistics.median(seconds) for seconds in (found.b, found.a))
        rows.append([name, str(count), f"{slow:.2f}", f"{fast:.2f}", f"**{found.ratio:.1f}**", str(rounds)])
    return table(["attack", "restarts", "one by one, restarts/s", "in one batch", "ratio", "rounds"], rows)


def _one_by_one(search: Callable[..., object], count: int) -> None:
    for seed in range(count):
        search(restarts=1, seed=seed)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=None)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--quick", action="store_true")
    arguments = parser.parse_args()
    rounds = 1 if arguments.quick else 5
    print(
        f"{CLASSES} classes, {FEATURES} features, K = {EXAMPLES}\n\n" + labels(rounds, 1 if arguments.quick else 3),
        flush=True,
    )
    count = 8 if arguments.quick else 32
    steps = 5 if arguments.quick else 20
    print("\n" + restarts(arguments.data, arguments.device, rounds, count, steps))


if __name__ == "__main__":
    main()

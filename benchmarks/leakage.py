"""What restoring labels and exact batches costs, and restarts of input searches in one batch against one by one.

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
from trainwitness import Numerics, Stepper, TaskSpec, build_task
from trainwitness.leakage.inputs import dlg, ig, sparse
from trainwitness.leakage.inputs.quality import match
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
    """The same iterations for `count` restarts: in one call, against a call each (a quarter of them, scaled)."""
    task = build_task("sigmoid-cifar100" if data else "sigmoid-digits", data=data)
    stepper = Stepper(task, Numerics(device=device))
    target = Target.of_rows(stepper, stepper.state(), [3])
    rows = []
    for name, attack in (("dlg", dlg.reconstruct), ("ig", ig.reconstruct)):
        search = functools.partial(attack, target, target.labels_of([3]), steps=steps, stop=False)
        found = alternate(
            functools.partial(search, restarts=count),
            functools.partial(_one_by_one, search, count // 4),
            rounds=rounds,
        )
        slow, fast = (count // 4) / statistics.median(found.b), count / statistics.median(found.a)
        ratio = found.ratio * count / (count // 4)
        rows.append([name, str(count), str(steps), f"{slow:.2f}", f"{fast:.2f}", f"**{ratio:.1f}**", str(rounds)])
    header = ["attack", "restarts", "iterations", "one by one, restarts/s", "in one batch", "ratio", "rounds"]
    return table(header, rows)


def _one_by_one(search: Callable[..., object], count: int) -> None:
    for seed in range(count):
        search(restarts=1, seed=seed)


def exact(data: Path | None, rounds: int, sizes: tuple[int, ...]) -> str:
    """Whole batches by `sparse`, on FCN-3 in float64."""
    spec = TaskSpec(name="mlp-mnist" if data else "mlp-digits", options={"hidden": [300, 300]})
    stepper = Stepper(build_task(spec, data=data), Numerics(precision="float64"))
    lines = []
    for size in sizes:
        seconds, errors = [], []
        for number in range(rounds):
            rows = list(range(50 + 20 * number, 50 + 20 * number + size))
            target = Target.of_rows(stepper, stepper.state(), rows)
            truth = target.inputs_of(rows)
            started = time.perf_counter()
            found = sparse.reconstruct(target).inputs
            seconds.append(time.perf_counter() - started)
            errors.append(float((found[match(found, truth)] - truth).abs().max()))
        median, worst = f"**{statistics.median(seconds):.2f}**", f"{max(seconds):.2f}"
        lines.append([str(size), median, worst, "1", f"{max(errors):.0e}", str(rounds)])
    return table(["batch", "s, median", "s, most", "target", "largest error", "batches"], lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=None)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--quick", action="store_true")
    arguments = parser.parse_args()
    rounds = 1 if arguments.quick else 5
    print(
        f"{CLASSES} classes, {FEATURES} features, K = {EXAMPLES}\n\n" + labels(rounds, 1),
        flush=True,
    )
    print("\n" + exact(arguments.data, rounds, (8,) if arguments.quick else (8, 12)), flush=True)
    count = 8 if arguments.quick else 32
    steps = 5 if arguments.quick else 50
    print("\n" + restarts(arguments.data, arguments.device, rounds, count, steps))


if __name__ == "__main__":
    main()

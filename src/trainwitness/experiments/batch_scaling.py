"""How the error of forging a whole batch falls with its size (Thudi et al. prove that it goes to 0)."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from trainwitness.experiments.attacked import at_stages, problem_at
from trainwitness.experiments.experiment import Setting
from trainwitness.forging.forge import attack
from trainwitness.training.stepper import Stepper

ATTACKS: dict[str, dict[str, Any]] = {
    "random batch": {"name": "efficient-greedy", "candidates": 1},
    "efficient-greedy": {"name": "efficient-greedy", "candidates": 5000},
    "swap-search": {"name": "swap-search"},
    "null-space": {"name": "null-space"},
}
EXACT, NARROW = ("null-space",), ("softmax-mnist",)
"""Attacks that leave nothing but rounding, and the tasks whose first layer lets them; valid batches with the same
gradient, by size, are in `lattice-forging`."""
SIZES = (10, 20, 50, 100, 200, 500)
PAPER_SLOPE = -0.5
"""The mean of b independent gradients is off by b^-1/2."""
RESAMPLES = 2000


def run(setting: Setting) -> dict[str, Any]:
    rows: list[dict[str, Any]] = []
    measured: dict[str, Any] = {}
    names = ("softmax-mnist",) if setting.quick else ("softmax-mnist", "lenet-mnist")
    runs, stage, pool = (3, 20, 400) if setting.quick else (5, 300, 2000)
    sizes = (10, 20, 50, 100) if setting.quick else SIZES
    for name in names:
        task = setting.task(name)
        _, reference = next(at_stages(task, setting.numerics(), [stage]))
        errors: dict[str, list[list[float]]] = {attack_name: [] for attack_name in ATTACKS}
        for size in sizes:
            trained = Stepper(setting.task(name, batch_size=size), setting.numerics())
            trained.load(reference.state())
            problems = [problem_at(trained, step, size, pool_size=pool, seed=step) for step in range(runs)]
            for attack_name, settings in ATTACKS.items():
                if attack_name in EXACT and name not in NARROW:
                    continue
                setting.advance(f"{name}, b = {size}, {attack_name}")
                errors[attack_name].append([attack(problem, **settings).error for problem in problems])
        for attack_name, found in errors.items():
            if not found:
                continue
            slope, low, high = slope_with_interval(sizes, np.array(found))
            means = [float(np.exp(np.log(one).mean())) for one in found]
            rows.append(
                {
                    "task": task.spec.name if task.spec else name,
                    "attack": attack_name,
                    f"error at b = {sizes[0]}": means[0],
                }
                | {f"error at b = {sizes[-1]}": means[-1], "slope": slope, "95% from": low, "to": high}
                | {"against b^-1/2": _against(low, high)}
            )
        measured[name] = {"sizes": list(sizes), "errors": errors}
    notes = [
        f"all b examples replaced by others, from {pool} rows, at step {stage} of a run with b = 100; {runs} batches "
        "of each size",
        "slope of log error over log b by least squares; interval from 2000 resamples of the batches of each size",
        "random batch: the best of one; error at b: geometric mean",
        "null-space: real-valued inputs with the same gradient, so what is left is rounding",
    ]
    return {"rows": rows, "notes": notes, "measured": measured}


def slope_with_interval(
    sizes: tuple[int, ...], errors: npt.NDArray[np.float64], *, seed: int = 0
) -> tuple[float, float, float]:
    """Least-squares slope of log `errors` [sizes, runs] over log sizes, and its 95% bootstrap interval."""
    x, y = np.log(np.array(sizes, float)), np.log(errors)
    centred = (x - x.mean()) / ((x - x.mean()) ** 2).sum()
    drawn = np.random.default_rng(seed).integers(0, y.shape[1], (RESAMPLES, *y.shape))
    slopes = centred @ np.take_along_axis(y[None], drawn, axis=2).mean(2).T
    low, high = np.quantile(slopes, [0.025, 0.975])
    return float(centred @ y.mean(1)), float(low), float(high)


def _against(low: float, high: float) -> str:
    return "steeper" if high < PAPER_SLOPE else "flatter" if low > PAPER_SLOPE else "agrees"

"""How often each threshold policy rejects honest traces that it never saw, recorded with other kernels."""

from __future__ import annotations

import functools
import multiprocessing
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import torch

from trainwitness.core.numerics import Numerics
from trainwitness.core.rates import exact_interval
from trainwitness.experiments.experiment import Setting
from trainwitness.tasks.registry import build_task
from trainwitness.tasks.task import TaskSpec
from trainwitness.trace.record import record
from trainwitness.verification.calibration import Calibration, calibrate
from trainwitness.verification.policies.policy import RATE, TRACE_STEPS
from trainwitness.verification.verify import verify

TASK, BATCH = "lenet-digits", 10
TRACES = 100
Judged = tuple[list[str], int, float]
POLICIES = ("extreme", "adaptive")


def run(setting: Setting) -> dict[str, Any]:
    traces, steps = (2, 100) if setting.quick else (TRACES, TRACE_STEPS)
    policies = POLICIES if setting.quick else POLICIES[:1]  # the default; adaptive takes four times as long
    setting.advance("calibrating")
    numerics = Numerics(device=setting.device, threads=1)
    calibration = calibrate(setting.task(TASK, batch_size=BATCH), numerics=numerics, steps=50, horizon=steps)
    judge = functools.partial(
        _judged, calibration=calibration, numerics=numerics, steps=steps, policies=policies, data=setting.data
    )
    rejected, jumped, largest = dict.fromkeys(policies, 0), 0, []
    for seed, (refused, ties, error) in enumerate(_in_parallel(judge, range(1, traces + 1), setting), start=1):
        setting.advance(f"honest trace {seed} of {traces}")
        for policy in refused:
            rejected[policy] += 1
        jumped += ties
        largest.append(error)
    rows = [
        {"policy": name, "stated": RATE, "traces": traces, "steps": steps}
        | {"rejected": count, "rate": count / traces, "95% at most": exact_interval(count, traces, outside=0.1)[1]}
        for name, count in rejected.items()
    ]
    notes = [
        f"{TASK}, b = {BATCH}: honest traces of other seeds, recorded on CPU without oneDNN kernels, verified on "
        f"{setting.device} with them",
        f"{jumped} of {traces * steps} honest steps jumped at near ties and were explained by them",
    ]
    return {"rows": rows, "notes": notes, "measured": {"largest error of each trace": largest}}


def _in_parallel(judge: Callable[[int], Judged], seeds: Iterable[int], setting: Setting) -> Iterator[Judged]:
    if setting.quick or setting.cuda:
        yield from map(judge, seeds)
        return
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(mp_context=spawn, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        yield from pool.map(judge, seeds)


def _judged(
    seed: int,
    *,
    calibration: Calibration,
    numerics: Numerics,
    steps: int,
    policies: Sequence[str],
    data: Path | None,
) -> Judged:
    """Records one honest trace and judges it: policies that reject it, jumps explained, the largest error."""
    task = build_task(TaskSpec(name=TASK, options={"batch_size": BATCH, "seed": seed}), data=data)
    refused, ties, largest = [], 0, 0.0
    with tempfile.TemporaryDirectory() as folder:
        record(task, Path(folder) / "t", steps=steps, numerics=Numerics(threads=1, onednn=False))
        for policy in policies:
            found = verify(Path(folder) / "t", task=task, calibration=calibration, policy=policy, numerics=numerics)
            if found.verdict != "ACCEPT":
                refused.append(policy)
            if policy == policies[0]:
                ties, largest = sum(e.rest_of_jump is not None for e in found.steps), found.max_l2
    return refused, ties, largest

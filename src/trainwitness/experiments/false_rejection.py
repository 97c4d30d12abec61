"""How often each threshold policy rejects honest traces that it never saw, recorded with other kernels."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from trainwitness.core.numerics import Numerics
from trainwitness.experiments.experiment import Setting
from trainwitness.trace.record import record
from trainwitness.verification.calibration import calibrate
from trainwitness.verification.policies.policy import RATE, TRACE_STEPS
from trainwitness.verification.verify import verify

TASK, BATCH = "lenet-digits", 10
TRACES = 100
POLICIES = ("extreme", "adaptive")


def run(setting: Setting) -> dict[str, Any]:
    traces, steps = (2, 100) if setting.quick else (TRACES, TRACE_STEPS)
    setting.advance("calibrating")
    numerics = Numerics(device=setting.device)
    calibration = calibrate(
        setting.task(TASK, batch_size=BATCH), numerics=numerics, steps=50, horizon=None if setting.quick else 500
    )
    rejected, jumped, largest = dict.fromkeys(POLICIES, 0), 0, []
    for seed in range(1, traces + 1):
        setting.advance(f"honest trace {seed} of {traces}")
        task = setting.task(TASK, batch_size=BATCH, seed=seed)
        with tempfile.TemporaryDirectory() as folder:
            record(task, Path(folder) / "t", steps=steps, numerics=Numerics(threads=1, onednn=False))
            for policy in POLICIES:
                found = verify(
                    Path(folder) / "t", task=task, calibration=calibration, policy=policy, numerics=numerics
                )
                rejected[policy] += found.verdict == "REJECT"
                if policy == "extreme" and found.threshold:
                    jumped += sum(error.l2 > found.threshold.value for error in found.steps)
                    largest.append(found.max_l2)
    rows = [
        {"policy": name, "stated": RATE, "traces": traces, "steps": steps}
        | {"rejected": count, "rate": count / traces, "95% at most": _upper(count, traces)}
        for name, count in rejected.items()
    ]
    notes = [
        f"{TASK}, b = {BATCH}: honest traces of other seeds, recorded on CPU with 1 thread and without oneDNN, "
        f"verified on {setting.device} as usual",
        f"{jumped} of {traces * steps} honest steps jumped over the extreme-value threshold, by near ties",
    ]
    return {"rows": rows, "notes": notes, "measured": {"largest error of each trace": largest}}


def _upper(count: int, total: int) -> float:
    """The exact (Clopper-Pearson) upper 95% bound of a rate."""
    from scipy.stats import beta

    return 1.0 if count == total else float(beta.ppf(0.95, count + 1, total - count))

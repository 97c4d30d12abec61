"""Table 3: traces recorded on one device and verified on another, with deterministic algorithms and without."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from trainwitness.core.environment import current_environment
from trainwitness.core.numerics import Numerics
from trainwitness.experiments.experiment import Setting, beside
from trainwitness.trace.record import record
from trainwitness.verification.verify import verify

CASES = (("lenet-mnist", 100, 100), ("lenet-mnist", 1000, 30), ("vggmini-cifar10", 100, 4))
"""Task, batch size, steps."""
PAPER_OWN = {False: 1e-8, True: 0.0}
PAPER_OTHER = {
    ("lenet-mnist", False): 1e-7,
    ("lenet-mnist", True): 1e-6,
    ("vggmini-cifar10", False): 4.4e-4,
}
"""Between two GPUs (RTX 4090, V100); vggmini from the workshop paper."""


def run(setting: Setting) -> dict[str, Any]:
    rows, measured = [], []
    devices = ["cuda", "cpu"] if setting.cuda else ["cpu"]
    for name, size, steps in (("lenet-mnist", 100, 10),) if setting.quick else CASES:
        task = setting.task(name, batch_size=size)
        for deterministic in (False, True):
            for source in devices:
                with tempfile.TemporaryDirectory() as folder:
                    made = _numerics(source, deterministic)
                    record(task, Path(folder) / "t", steps=steps, numerics=made)
                    for target in devices:
                        setting.advance(f"{name}, b = {size}, {source} -> {target}")
                        verdict = verify(Path(folder) / "t", task=task, numerics=_numerics(target, deterministic))
                        paper = (
                            PAPER_OWN[deterministic] if source == target else PAPER_OTHER.get((name, deterministic))
                        )
                        rows.append(
                            {"task": task.spec.name if task.spec else name, "batch": size, "steps": steps}
                            | {"deterministic": "on" if deterministic else "off", "from": source, "to": target}
                            | {"exact": f"{sum(e.exact for e in verdict.steps)}/{len(verdict.steps)}"}
                            | beside(verdict.max_l2, paper)
                        )
                        measured.append([float(f"{error.l2:.3g}") for error in verdict.steps])
    machine = current_environment()
    notes = [
        f"cpu: {machine.processor}, {machine.cores} cores" + (f"; cuda: {machine.gpu}" if setting.cuda else ""),
        "the paper's figures are between two GPUs, ours between a GPU and a CPU; auto-tuning is on where "
        "deterministic algorithms are off",
    ]
    return {"rows": rows, "notes": notes, "measured": measured}


def _numerics(device: str, deterministic: bool) -> Numerics:
    return Numerics(device=device, deterministic=deterministic, autotune=device == "cuda" and not deterministic)

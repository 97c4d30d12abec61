"""DLG deck: iterations until the inputs are restored, by batch size."""

from __future__ import annotations

from typing import Any

from trainwitness.core.seeds import derive, permutation
from trainwitness.experiments.experiment import Setting
from trainwitness.experiments.inversion_labels import restored_labels
from trainwitness.experiments.leaked import leak_task
from trainwitness.leakage.inputs import dlg
from trainwitness.leakage.inputs.quality import judged
from trainwitness.leakage.inputs.target import Target
from trainwitness.training.stepper import Stepper

PAPER = {1: 270, 2: 602, 4: 1173, 8: 2711}
"""ResNet-20 on CIFAR-100; an iteration there is one call of L-BFGS, up to 20 inner ones."""
CLEAR = 25.0


def run(setting: Setting) -> dict[str, Any]:
    name = "sigmoid-cifar100"
    task = leak_task(setting, name)
    stepper = Stepper(task, setting.numerics("float64" if setting.cuda else "float32"))
    sizes = (1,) if setting.quick else (1, 2, 4, 8)
    batches = 8 if setting.cuda and not setting.quick else 1
    limit = 40 if setting.quick else 10_000 if setting.cuda else 1500
    rows: list[dict[str, Any]] = []
    for size in sizes:
        tried = 8 if size == 1 and not setting.quick else batches
        iterations, values, solved = [], [], 0
        for number in range(tried):
            setting.advance(f"batch size {size}, batch {number}")
            chosen = [int(k) for k in permutation(derive(0, "dlg", size, number), len(task.dataset))[:size]]
            target = Target.of_rows(stepper, stepper.state(), chosen)
            found = dlg.reconstruct(target, restored_labels(target), restarts=1, steps=limit, seed=number)
            iterations.append(found.iterations)
            solved += found.objective <= dlg.solved_at(size)
            values += [one.psnr for one in judged(found.inputs, target.inputs_of(chosen))]
        rows.append(
            {"batch": size, "batches": tried, "images": len(values), "above 25 dB": sum(v >= CLEAR for v in values)}
            | {"least dB": min(values), "mean dB": sum(values) / len(values), "solved": solved}
            | {"iterations": sum(iterations) / len(iterations), "limit": limit, "paper": PAPER[size]}
        )
    notes = [
        f"{task.spec.name if task.spec else name}, untrained; labels restored first; one restart; ended when the "
        f"squared distance of the gradients is {dlg.SOLVED:g} ({dlg.SOLVED_BATCH:g} for batches) of the squared "
        "gradient (solved), or at the limit; float64 on a GPU",
        "the paper's iterations are of ResNet-20 and hold up to 20 inner iterations each; ours are inner ones",
    ]
    return {"rows": rows, "notes": notes}

"""DLG (Zhu et al. 2019): dummy inputs whose gradient is the shared one, by L-BFGS; several restarts in one batch.

As published, inputs and soft labels are sought together, and one run in three stalls with a wrong label. Here
labels are restored first (`labels`); without them the published search is done. The objective is the squared
distance of the gradients over the squared gradient, the same loss (the mean over the batch) on both sides.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from trainwitness.core.seeds import derive
from trainwitness.leakage.inputs.distances import squared
from trainwitness.leakage.inputs.lbfgs import minimise
from trainwitness.leakage.inputs.restored import Restoration
from trainwitness.leakage.inputs.target import Target
from trainwitness.leakage.inputs.unknowns import Unknowns

SOLVED = 1e-8
"""Share of the squared gradient at which a restart counts as solved. Images are then right to 40 dB or more where the
gradient has more equations than they have unknowns; where it has fewer, no distance says that they are right."""

NOTHING = 1e-9
"""A parameter with less than this share of the squared gradient has rounding for a gradient (a key's bias, say)."""


def reconstruct(
    target: Target,
    labels: torch.Tensor | None,
    *,
    restarts: int = 8,
    steps: int = 300,
    seed: int = 0,
    stop: bool = True,
    balanced: bool = False,
    watch: Callable[[torch.Tensor], None] | None = None,
) -> Restoration:
    """Inputs whose gradient is the target's; `stop`: end once one restart has solved it.

    `balanced` weighs every parameter's gradient alike, however small it is beside the others; `watch` sees the inputs
    [r, b, ...] after every iteration.
    """
    gap, box = target.gap(), target.box
    unknowns = Unknowns(target, labels)
    sizes = {name: float(tensor.square().sum()) for name, tensor in target.gradient.items()}
    whole = sum(sizes.values())
    scales = {
        name: max(max(size, NOTHING * whole) * len(sizes) if balanced else whole, 1e-30)
        for name, size in sizes.items()
    }

    def objective(values: torch.Tensor, which: torch.Tensor) -> torch.Tensor:
        _ = which
        inputs, soft = unknowns.split(values)
        found = gap.gradients(box.inside(inputs), soft)
        return squared(found, target.gradient, scales)

    start = unknowns.start(restarts, derive(seed, "dlg"))
    tolerance = SOLVED if stop else 0.0

    def told(values: torch.Tensor) -> None:
        if watch is not None:
            watch(unknowns.split(values)[0])

    least = minimise(objective, start, steps=steps, tolerance=tolerance, enough=1 if stop else None, watch=told)
    best = int(least.values.argmin())
    inputs, soft = unknowns.split(least.unknowns[best : best + 1])
    return Restoration(
        inputs[0].detach(),
        (soft[0].argmax(-1) if soft.is_floating_point() else soft[0]).detach(),
        float(least.values[best]),
        int(least.iterations[best]),
        tuple(least.values.tolist()),
    )

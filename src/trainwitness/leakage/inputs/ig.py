"""IG, Inverting Gradients (Geiping et al. 2020): cosine distance of gradients plus total variation, Adam on signs.

Labels are fixed to the restored ones (`labels`), or sought together with the inputs. Adam works value by value, so
all restarts run in one batch.
"""

from __future__ import annotations

import torch

from trainwitness.core.seeds import derive
from trainwitness.leakage.inputs.distances import cosine
from trainwitness.leakage.inputs.restored import Restoration
from trainwitness.leakage.inputs.target import Target
from trainwitness.leakage.inputs.unknowns import Unknowns

RATE, VARIATION = 0.1, 1e-3
SOLVED = 1e-7


def reconstruct(
    target: Target,
    labels: torch.Tensor | None,
    *,
    restarts: int = 4,
    steps: int = 1000,
    seed: int = 0,
    variation: float = VARIATION,
    stop: bool = True,
) -> Restoration:
    """Inputs whose gradient has the target's direction; `stop`: end once one restart has it to rounding."""
    gap, box = target.gap(), target.box
    unknowns = Unknowns(target, labels)
    moving = unknowns.start(restarts, derive(seed, "ig")).requires_grad_()
    optimizer = torch.optim.Adam([moving], lr=RATE)
    # The published schedule: a tenth of the rate after 3/8, 5/8 and 7/8 of the steps.
    rates = torch.optim.lr_scheduler.MultiStepLR(optimizer, [steps * k // 8 for k in (3, 5, 7)], gamma=0.1)
    least = torch.full((restarts,), float("inf"), device=moving.device)
    best = moving.detach().clone()
    done = 0
    for _ in range(steps):
        inputs, soft = unknowns.split(moving)
        distance = cosine(gap.gradients(box.inside(inputs), soft), target.gradient)
        (slope,) = torch.autograd.grad((distance + variation * total_variation(inputs)).sum(), moving)
        with torch.no_grad():
            better = distance < least
            least = torch.where(better, distance, least)
            best[better] = moving.detach()[better]
            moving.grad = slope.sign()
            optimizer.step()
            rates.step()
            moving[:, : unknowns.size].clamp_(0, 1)
        done += 1
        if stop and bool((least < SOLVED).any()):
            break
    first = int(least.argmin())
    inputs, soft = unknowns.split(best[first : first + 1])
    named = soft[0].argmax(-1) if soft.is_floating_point() else soft[0]
    return Restoration(inputs[0], named, float(least[first]), done, tuple(least.detach().tolist()))


def total_variation(inputs: torch.Tensor) -> torch.Tensor:
    """Mean absolute difference of neighbouring pixels of images [r, b, c, h, w]; 0 for inputs that are no images."""
    if inputs.dim() != 5:
        return torch.zeros(len(inputs), device=inputs.device, dtype=inputs.dtype)
    down, right = inputs.diff(dim=-2).abs(), inputs.diff(dim=-1).abs()
    return down.flatten(1).mean(1) + right.flatten(1).mean(1)

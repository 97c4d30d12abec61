"""optimise: Adam on the inputs until the batch's gradient is the wanted one (workshop paper, Algorithm 1).

The labels stay with new examples of the same classes from the pool, whose inputs are the start. `projected` keeps the
inputs in their box and rounds them to the grid at the end; otherwise they go where they like and leave the domain.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from trainwitness.core.canonical import row_bytes
from trainwitness.core.errors import UsageError
from trainwitness.forging.forger import Choice
from trainwitness.forging.problem import Problem, same_classes
from trainwitness.tasks.domain import IntegerBox
from trainwitness.training.differentiable import GradientGap

STEPS, RATE, BETAS = 200, 0.5, (0.9, 0.999)


def forge(problem: Problem, *, projected: bool = True, steps: int = STEPS, rate: float = RATE) -> Choice:
    task, stepper = problem.stepper.task, problem.stepper
    domain, dataset = task.dataset.domain, task.dataset
    if not np.issubdtype(dataset.inputs.dtype, np.integer) or not isinstance(domain, IntegerBox):
        raise UsageError("this data set's inputs are not whole numbers in a box", hint="optimise forges images")
    start = problem.batch_with(same_classes(problem))
    flat = [row for micro in start.rows for row in micro]
    raw, labels = dataset.fetch(flat)
    if not dataset.prepare(raw, stepper.dtype).is_floating_point():
        raise UsageError("tokens cannot be changed a little", hint="optimise forges images and tables")
    gap = GradientGap(stepper, problem.before)
    honest, honest_labels = dataset.fetch(problem.rows)
    device, dtype = stepper.device, stepper.dtype
    wanted = {
        name: tensor.detach()
        for name, tensor in gap.gradient(dataset.prepare(honest.to(device), dtype), honest_labels.to(device)).items()
    }
    places = list(problem.positions)
    values = raw.to(device, dtype)
    low, high = (torch.as_tensor(bound, device=device, dtype=dtype) for bound in (domain.low, domain.high))
    unit = (high - low).clamp(min=1).to(dtype)  # the box as 0..1, which the papers' learning rate is for
    moving = ((values[places] - low) / unit).requires_grad_()
    optimizer = torch.optim.Adam([moving], lr=rate, betas=BETAS, eps=1e-8)
    done, least, best = 0, float("inf"), values[places]
    while done < steps and not (done and problem.late):
        optimizer.zero_grad()
        real = moving * unit + low
        full = values.index_put((torch.tensor(places, device=device),), real)
        loss = gap(dataset.prepare(full, dtype), labels.to(device), wanted)
        if loss.item() < least:
            least, best = loss.item(), real.detach().clone()
        torch.autograd.backward(loss)
        optimizer.step()
        done += 1
        if projected:
            with torch.no_grad():
                moving.clamp_(0, 1)
    gradients = done * problem.batch.size
    if not projected:
        values[places] = best
        return Choice(start, gradients=gradients, candidates=done, real=values.cpu().numpy())
    whole = best.round().clamp(low, high).cpu().numpy().astype(dataset.inputs.dtype)
    carried = {k: row_bytes((whole[number], labels.numpy()[k])) for number, k in enumerate(places)}
    return Choice(replace(start, carried=carried), gradients=gradients, candidates=done)

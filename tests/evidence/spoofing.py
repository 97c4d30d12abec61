"""Optimised-noise spoofing of a whole trace: invented rows that lead from a fresh start to a stolen model.

After Zhang et al. 2022 ("Adversarial examples for proof-of-learning") and Fang et al. 2023: the States are laid on a
path from the seed's initial parameters to the stolen ones, and for every step noise is put on the rows until their
gradient is the one that the path needs. The attacker here has every freedom: a small convex model, float64, all rows
and their labels.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch

from trainwitness import Dataset, FiniteReals, State, Stepper, Task

STEPS, ITERATIONS = 4, 150


@dataclass(frozen=True)
class Spoof:
    """The invented data set, the States of the path, and what it took."""

    task: Task
    states: list[State]
    gradients: int


def real_domain(task: Task) -> Task:
    """The task with the same rows as real numbers, of which any finite one is valid."""
    data = task.dataset
    return replace(task, dataset=Dataset("real", (data.inputs / 255).astype(np.float32), data.labels, FiniteReals()))


def spoof(task: Task, stolen: State, *, every: int = 1, honest: bool = False) -> Spoof:
    """Rows for each of the task's own batches, so that training on them ends at `stolen`.

    With `every` K only every K-th State must be met, so errors before it can be made good. An `honest` spoofer stores
    the States that its rows do lead to, not the ones they should.
    """
    stepper, data = Stepper(task), task.dataset
    inputs, labels, count = data.inputs.copy(), data.labels.copy(), 0
    states = [stepper.state()]
    for step in range(STEPS):
        before = states[-1]
        target = _between(states[0], stolen, (step + 1) / STEPS)
        batch = task.schedule.batch(step)
        rows = list(batch.rows[0])
        labels[rows] = np.arange(len(rows)) % 3  # every class is there to be pulled at
        found, used = _rows_for(task, before, target, inputs[rows], labels[rows])
        inputs[rows], count = found, count + used
        invented = replace(task, dataset=replace(data, inputs=inputs, labels=labels))
        reached = Stepper(invented)(before, batch)
        claimed = (step + 1) % every == 0 and not honest
        states.append(_with_parameters(reached, target) if claimed else reached)
    return Spoof(replace(task, dataset=replace(data, inputs=inputs, labels=labels)), states, count)


def _between(first: State, last: State, share: float) -> State:
    if share == 1:
        return State({f"param/{name}": tensor for name, tensor in last.part("param").items()})
    return State({n: t + (last.tensors[n] - t) * share for n, t in first.tensors.items() if n.startswith("param/")})


def _with_parameters(state: State, wanted: State) -> State:
    return State({**state.tensors, **wanted.tensors})


def _rows_for(
    task: Task, before: State, target: State, start: np.ndarray, labels: np.ndarray
) -> tuple[np.ndarray, int]:
    """L-BFGS on the rows until one SGD step from `before` gives `target`; rounded where the domain is integers."""
    rate = task.schedule.learning_rate(0)
    weight, bias = (before.tensors[f"param/{name}"].double() for name in ("weight", "bias"))
    wanted = [(before.tensors[f"param/{n}"].double() - target.tensors[f"param/{n}"].double()) / rate
              for n in ("weight", "bias")]  # fmt: skip
    scale = 255.0 if np.issubdtype(start.dtype, np.integer) else 1.0
    moving = torch.from_numpy(start.astype(np.float64) / scale).requires_grad_()
    kinds = torch.nn.functional.one_hot(torch.from_numpy(labels), 3).double()
    used = 0

    def gap() -> torch.Tensor:
        nonlocal used
        used += len(labels)
        off = torch.softmax(moving @ weight.T + bias, 1) - kinds
        loss = ((off.T @ moving / len(labels) - wanted[0]) ** 2).sum() + ((off.mean(0) - wanted[1]) ** 2).sum()
        (moving.grad,) = torch.autograd.grad(loss, moving)
        return loss

    optimizer = torch.optim.LBFGS(
        [moving], max_iter=ITERATIONS, tolerance_grad=1e-14, tolerance_change=1e-18, line_search_fn="strong_wolfe"
    )
    optimizer.step(gap)
    found = moving.detach().numpy() * scale
    if scale == 1.0:
        return found.astype(start.dtype), used
    return np.clip(np.rint(found), 0, 255).astype(start.dtype), used

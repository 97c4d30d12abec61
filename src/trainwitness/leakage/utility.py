"""What a defence costs: accuracy after training with defended gradients, step by step through the step function."""

from __future__ import annotations

from typing import Any

from trainwitness.core.numerics import Numerics
from trainwitness.core.seeds import derive
from trainwitness.leakage.defences import Defence, clipped, defended
from trainwitness.tasks.task import Task
from trainwitness.training.evaluate import accuracy
from trainwitness.training.stepper import Stepper


def accuracy_with(task: Task, defence: Defence | None, steps: int, numerics: Numerics | None = None) -> float | None:
    """Test accuracy after `steps` steps in which the optimiser sees defended gradients only."""
    stepper = Stepper(task, numerics)
    stepping: dict[str, Any] = {}

    def change(*_: object) -> None:
        named = dict(stepper.live.model.named_parameters())
        shared = stepping["clipped"]
        if shared is None and defence is not None:
            gradient = {name: parameter.grad for name, parameter in named.items() if parameter.grad is not None}
            shared = defended(gradient, defence, stepping["seed"])
        for name, tensor in (shared or {}).items():
            named[name].grad = tensor

    stepper.live.optimizer.register_step_pre_hook(change)
    for step in range(steps):
        batch = task.schedule.batch(step)
        stepping["seed"] = derive(task.seed, "defence", step)
        stepping["clipped"] = None
        if defence is not None and defence.per_example:
            rows = [row for micro in batch.rows for row in micro]
            stepping["clipped"] = clipped(stepper, stepper.live.view(), rows, defence, stepping["seed"])
        stepper.run(batch)
    return accuracy(stepper)

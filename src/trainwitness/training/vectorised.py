"""Many steps of a small model at once: each from its own State and batch, in one vectorised call.

For networks of a few thousand parameters a step is mostly overhead. Verification knows every step's State beforehand,
so the steps are independent and `torch.func.vmap` computes dozens together. Sums run in another order than in the
step function, so results differ from it by benign rounding; a verifier falls back to the step function for steps that
come out too far.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import nn

from trainwitness.core.batch import Batch
from trainwitness.core.state import State
from trainwitness.training.apply_numerics import applied
from trainwitness.training.stepper import Stepper, fetch

MAX_PARAMETERS = 20_000
"""Above this the arithmetic outweighs the overhead (LeNet gains nothing)."""

_DETERMINISTIC = (nn.Linear, nn.ReLU, nn.ELU, nn.Tanh, nn.GELU, nn.Flatten, nn.Sequential, nn.LayerNorm)


class VectorisedSteps:
    """g for several steps of plain SGD (momentum, weight decay) at once."""

    def __init__(self, stepper: Stepper) -> None:
        self._stepper = stepper
        self._gradients = torch.func.vmap(torch.func.grad(self._loss))

    @staticmethod
    def supports(stepper: Stepper) -> bool:
        """Small, without buffers or randomness, trained with plain SGD in float32 or float64."""
        live = stepper.live
        settings, parameters = live.groups(), list(live.model.parameters())
        return (
            type(live.optimizer) is torch.optim.SGD
            and len(settings) == 1
            and stepper.task.privacy is None
            and not settings[0]["maximize"]
            and not settings[0]["nesterov"]
            and not settings[0]["dampening"]
            and stepper.numerics.precision in ("float32", "float64")
            and all(type(module) in _DETERMINISTIC for module in live.model.modules())
            and all(parameter.requires_grad for parameter in parameters)
            and {id(p) for p in live.optimizer.param_groups[0]["params"]} == {id(p) for p in parameters}
            and next(live.model.buffers(), None) is None
            and sum(parameter.numel() for parameter in parameters) <= MAX_PARAMETERS
        )

    def __call__(
        self, states: Sequence[State], batches: Sequence[Batch], held: Mapping[str, torch.Tensor] | None = None
    ) -> list[State]:
        """The State after each step. All batches must have one micro-batch and the same size.

        Parameters are taken from `states`; momentum is carried on from step to step, beginning with `held`
        (`optim/NAME/momentum_buffer`; none yet if absent).
        """
        stepper, names = self._stepper, [n for n, _ in self._stepper.live.model.named_parameters()]
        stack = {n: torch.stack([s.tensors[f"param/{n}"] for s in states]).to(stepper.device) for n in names}
        rows = [row for batch in batches for row in batch.rows[0]]
        carried: dict[int, bytes] = {}
        first = 0
        for batch in batches:
            carried |= {first + k: row for k, row in batch.carried.items()}
            first += batch.size
        with applied(stepper.numerics), torch.no_grad():
            inputs, labels = fetch(stepper.task.dataset, rows, stepper.device, stepper.dtype, carried)
            shape = (len(batches), batches[0].size)
            gradients = self._gradients(
                stack, inputs.view(*shape, *inputs.shape[1:]), labels.view(*shape, *labels.shape[1:])
            )
            after = self._updated(batches, stack, gradients, held or {})
        return [State({name: tensor[k] for name, tensor in after.items()}) for k in range(len(states))]

    def _loss(self, parameters: dict[str, torch.Tensor], inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return self._stepper.task.loss(
            torch.func.functional_call(self._stepper.live.model, parameters, (inputs,)), labels
        )

    def _updated(
        self,
        batches: Sequence[Batch],
        stack: dict[str, torch.Tensor],
        gradients: dict[str, torch.Tensor],
        held: Mapping[str, torch.Tensor],
    ) -> dict[str, torch.Tensor]:
        """SGD as torch.optim computes it: g + decay p; v = momentum v + g (v = g at first); p - rate v."""
        settings, schedule = self._stepper.live.groups()[0], self._stepper.task.schedule
        rates = torch.tensor([schedule.learning_rate(b.step) for b in batches], dtype=self._stepper.dtype)
        after: dict[str, torch.Tensor] = {}
        for name, parameter in stack.items():
            gradient = gradients[name]
            if settings["weight_decay"]:
                gradient = gradient.add(parameter, alpha=settings["weight_decay"])
            if settings["momentum"]:
                key = f"optim/{name}/momentum_buffer"
                gradient = _with_momentum(gradient, held.get(key), settings["momentum"])
                after[key] = gradient.cpu()
            rate = rates.to(parameter.device).view(-1, *[1] * (parameter.dim() - 1))
            after[f"param/{name}"] = (parameter - rate * gradient).cpu()
        return after


def _with_momentum(gradients: torch.Tensor, held: torch.Tensor | None, momentum: float) -> torch.Tensor:
    velocities, velocity = [], None if held is None else held.to(gradients)
    for gradient in gradients:
        velocity = gradient if velocity is None else velocity.mul(momentum).add(gradient)
        velocities.append(velocity)
    return torch.stack(velocities)

"""What the last layer reads: a model's features of some rows."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from trainwitness.core.errors import UsageError
from trainwitness.core.state import State
from trainwitness.training.apply_numerics import applied
from trainwitness.training.stepper import Stepper, fetch


def features(stepper: Stepper, state: State, rows: Sequence[int], *, at_once: int = 500) -> torch.Tensor:
    """The input of the model's last linear layer, one line per row."""
    last = [module for module in stepper.live.model.modules() if isinstance(module, nn.Linear)]
    if not last:
        raise UsageError("the model has no linear layer, so no features before it")
    stepper.live.load_parameters(state)
    seen: list[torch.Tensor] = []
    hook = last[-1].register_forward_pre_hook(lambda _, arguments: seen.append(arguments[0].detach().float().cpu()))
    try:
        with torch.no_grad(), applied(stepper.numerics):
            for first in range(0, len(rows), at_once):
                inputs, _ = fetch(stepper.task.dataset, rows[first : first + at_once], stepper.device, stepper.dtype)
                stepper.live.model(inputs)
    finally:
        hook.remove()
    return torch.cat(seen)

"""The first layer seen alone: what it reads, its weights, and the errors that come back to it.

A fully connected first layer computes Z = X W + c. Everything behind it sees only Z, and its own gradient is
X'D / b with D the errors by Z. So a change P of the inputs with P W = 0 and P'D = 0 changes no gradient at all
(paper 000, Proposition 2); exact forging lives in these two null spaces.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from trainwitness.core.batch import Batch
from trainwitness.core.errors import UsageError
from trainwitness.core.state import State
from trainwitness.tasks.dataset import Dataset
from trainwitness.training.randomness import seed_micro_batch
from trainwitness.training.stepper import Stepper, fetch

Reals = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class FirstLayer:
    """A fully connected first layer at one State and batch, in float64."""

    name: str
    """What its parameters' names begin with: "", or a path with a dot."""
    inputs: Reals
    """[b, d]: what the model reads, after normalisation."""
    outputs: Reals
    """[b, n]: before the activation."""
    weight: Reals
    """[d, n]"""
    errors: Reals
    """[b, n]: b times the derivative of the mean loss by the outputs."""
    biased: bool
    only: bool
    """Its outputs are the model's: logistic regression, L = 1."""
    shift_free: bool
    """Adding one number to all outputs of an example changes no gradient (softmax)."""

    @property
    def seen(self) -> Reals:
        """[d, n]: the weights as far as a change of the outputs matters; centred where a common shift is free."""
        return self.weight - self.weight.mean(1, keepdims=True) if self.shift_free else self.weight


def first_layer(stepper: Stepper, state: State, batch: Batch) -> FirstLayer:
    """The first layer of the stepper's model; refused where the inputs enter in another way."""
    task, model = stepper.task, stepper.live.model
    tensors = {
        **{name: tensor.double() for name, tensor in state.part("param").items()},
        **{n: t.double() if t.is_floating_point() else t.clone() for n, t in state.part("buffer").items()},
    }
    parts, first = [], 0
    for micro, rows in enumerate(batch.rows):
        carried = {k - first: row for k, row in batch.carried.items() if first <= k < first + len(rows)}
        inputs, labels = fetch(task.dataset, rows, torch.device("cpu"), torch.float64, carried)
        seed_micro_batch(task.seed, batch.step, micro)
        parts.append(_Watched(model, tensors, inputs, labels, task.loss))
        first += len(rows)
    layer = parts[0].layer
    name = f"{parts[0].name}." if parts[0].name else ""
    weight = tensors[f"{name}weight"].numpy().T
    found = FirstLayer(
        name=name,
        inputs=np.concatenate([part.inputs for part in parts]),
        outputs=np.concatenate([part.outputs for part in parts]),
        weight=np.ascontiguousarray(weight),
        errors=np.concatenate([part.errors for part in parts]),
        biased=layer.bias is not None,
        only=parts[0].only,
        shift_free=all(part.shift_free for part in parts),
    )
    back = np.concatenate([part.input_errors for part in parts])
    if not np.allclose(found.errors @ found.weight.T, back, rtol=1e-6, atol=1e-9 * max(1.0, np.abs(back).max())):
        raise UsageError("the inputs reach the loss by another way than the first layer", hint=_HINT)
    return found


_HINT = "the first layer must be fully connected and the only one that reads the inputs"


class _Watched:
    """One micro-batch through the model, with the first layer's outputs caught."""

    def __init__(
        self,
        model: nn.Module,
        tensors: dict[str, torch.Tensor],
        inputs: torch.Tensor,
        labels: torch.Tensor,
        loss: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
    ) -> None:
        if not inputs.is_floating_point():
            raise UsageError("tokens enter by a table, not by a layer that multiplies them", hint=_HINT)
        caught: list[tuple[str, nn.Module, torch.Tensor, torch.Tensor]] = []

        def catch(name: str) -> Callable[..., None]:
            return lambda module, arguments, output: caught.append((name, module, arguments[0], output))

        hooks = [
            module.register_forward_hook(catch(name))
            for name, module in model.named_modules()
            if next(module.parameters(recurse=False), None) is not None
        ]
        try:
            given = inputs.requires_grad_()
            answer = torch.func.functional_call(model, tensors, (given,))
        finally:
            for hook in hooks:
                hook.remove()
        self.name, layer, read, output = caught[0]
        if not isinstance(layer, nn.Linear) or read.dim() != 2 or not torch.equal(read, given.flatten(1)):
            raise UsageError(f"the first layer is {type(layer).__name__}: not fully connected", hint=_HINT)
        self.layer = layer
        share = loss(answer, labels) * len(inputs)
        by_output, by_input = torch.autograd.grad(share, [output, given])
        self.only = answer.shape == output.shape and torch.equal(answer, output)
        self.shift_free = self.only and _shift_is_free(loss, answer.detach(), labels, by_output)
        self.inputs, self.outputs = _array(read), _array(output)
        self.errors, self.input_errors = _array(by_output), _array(by_input.flatten(1))


def _shift_is_free(
    loss: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
    answer: torch.Tensor,
    labels: torch.Tensor,
    by_output: torch.Tensor,
) -> bool:
    moved = (answer + 1).requires_grad_()
    (other,) = torch.autograd.grad(loss(moved, labels) * len(answer), moved)
    return bool(torch.allclose(other, by_output, rtol=1e-9, atol=1e-12))


def input_scale(dataset: Dataset) -> tuple[Reals, Reals]:
    """[d] each: what a unit of a raw input adds to what the model reads (1/255 for pixels), and what it reads for 0.

    Found by trying; refused where `prepare` is not an affine function of each input by itself.
    """
    raw = torch.from_numpy(dataset.inputs[:8].copy())
    zero = torch.zeros_like(raw[:1])

    def read(values: torch.Tensor) -> Any:
        return dataset.prepare(values, torch.float64).flatten(1)

    origin = read(zero)
    if not origin.is_floating_point():
        raise UsageError("tokens enter by a table, not by a layer that multiplies them", hint=_HINT)
    scale = read(zero + 1) - origin
    expected = origin + raw.flatten(1).double() * scale
    if expected.shape != read(raw).shape or not torch.allclose(expected, read(raw), rtol=1e-9, atol=1e-9):
        raise UsageError("the data set's normalisation is not affine in each input", hint="forge its raw inputs")
    return _array(scale[0]), _array(origin[0])


def _array(tensor: torch.Tensor) -> Reals:
    found: Reals = tensor.detach().cpu().numpy().astype(np.float64)
    return found

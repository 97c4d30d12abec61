"""Replay: on a GPU, the forward and backward pass of a step as one CUDA graph.

An exact step is about a thousand small operations, and asking for them one by one takes longer than computing them.
A graph asks for the same kernels, on the same memory and in the same order, at once. So the bits are the same.

A graph repeats what was recorded, whatever Python would have done this time. It is used only where Python would do
the same again: PyTorch's own modules without hooks, PyTorch's losses or ours, no random numbers, the same shapes.
Everything else runs operation by operation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from trainwitness.training.exact.convert import SUPPORTED
from trainwitness.training.exact.witness import Witness

Passes = Callable[[torch.Tensor, torch.Tensor, Witness], torch.Tensor]
"""Forward and backward pass of one batch: leaves gradients, fills the Witness, returns the loss."""
Key = tuple[Any, ...]


@dataclass(frozen=True)
class Recorded:
    """A graph, and the memory it reads and writes."""

    key: Key
    graph: torch.cuda.CUDAGraph
    inputs: torch.Tensor
    labels: torch.Tensor
    loss: torch.Tensor
    witness: Witness
    largest: torch.Tensor
    gradients: list[tuple[nn.Parameter, torch.Tensor | None]]

    def run(self, inputs: torch.Tensor, labels: torch.Tensor, witness: Witness) -> torch.Tensor:
        """The passes on another batch. Sums and gradients are overwritten by the next."""
        self.inputs.copy_(inputs)
        self.labels.copy_(labels)
        self.graph.replay()
        witness.sums, witness.outputs = dict(self.witness.sums), self.witness.outputs
        witness.saw(self.largest)
        for parameter, gradient in self.gradients:
            parameter.grad = gradient
        return self.loss


class Replay:
    """Runs passes: the first batch of a shape as they are, the second as a graph that all later ones use."""

    def __init__(self, model: nn.Module, loss: object) -> None:
        self._model, self._loss = model, loss
        self._last: Key | None = None
        self._recorded: Recorded | None = None
        self._never = False

    def __call__(self, passes: Passes, inputs: torch.Tensor, labels: torch.Tensor, witness: Witness) -> torch.Tensor:
        """passes(inputs, labels, witness), with no gradients there before."""
        key = None if self._never else self._key(inputs, labels)
        if key is not None and self._recorded is not None and self._recorded.key == key:
            self._last = None
            return self._recorded.run(inputs, labels, witness)
        if key is not None and self._last == key:
            self._recorded = None  # its memory can serve the next one
            try:
                self._recorded = _record(key, passes, inputs, labels, self._model)
            except RuntimeError:  # something in the passes cannot be recorded
                self._never = True
            else:
                return self._recorded.run(inputs, labels, witness)
        self._last = key
        loss = passes(inputs, labels, witness)
        self._never |= witness.drawn
        return loss

    def _key(self, inputs: torch.Tensor, labels: torch.Tensor) -> Key | None:
        """All that a graph takes for granted; None where Python might do something else next time."""
        modules = list(self._model.modules())
        tensors = [*self._model.parameters(), *self._model.buffers()]
        if not repeats(self._loss, modules, tensors):
            return None
        return (
            *((x.shape, x.dtype, x.device) for x in (inputs, labels)),
            tuple((id(module), module.training) for module in modules),
            tuple((x.data_ptr(), x.requires_grad) for x in tensors),
        )


def repeats(loss: object, modules: list[nn.Module], tensors: list[torch.Tensor]) -> bool:
    """Whether these modules and this loss do the same with every batch of a shape."""
    home = getattr(loss, "__module__", None) or ""
    called = [*modules, loss] if isinstance(loss, nn.Module) else modules
    return (
        home.startswith(("torch.nn.", "trainwitness."))
        and not nn.modules.module._has_any_global_hook()  # type: ignore[no-untyped-call]
        and all(type(module) in SUPPORTED for module in modules)
        and not any("forward" in vars(module) for module in called)
        and not any(module._forward_hooks or module._forward_pre_hooks for module in called)
        and not any(module._backward_hooks or module._backward_pre_hooks for module in called)
        and not any(x._backward_hooks or getattr(x, "_post_accumulate_grad_hooks", None) for x in tensors)
    )


def _record(key: Key, passes: Passes, inputs: torch.Tensor, labels: torch.Tensor, model: nn.Module) -> Recorded:
    """The passes as a graph; nothing is computed yet."""
    if inputs.device.index != torch.cuda.current_device():
        raise RuntimeError("graphs are recorded on the current device only")
    witness, graph = Witness(), torch.cuda.CUDAGraph()
    inputs, labels, parameters = inputs.clone(), labels.clone(), list(model.parameters())
    try:
        # Other threads may wait for events meanwhile (leaves being hashed): only this one is watched.
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            loss = passes(inputs, labels, witness)
            largest = witness.largest()
        gradients = [(parameter, parameter.grad) for parameter in parameters]
    finally:
        for parameter in parameters:
            parameter.grad = None
    return Recorded(key, graph, inputs, labels, loss, witness, largest, gradients)

"""The State of a live model, optimiser and loss scaler: reading it and putting it back."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch import nn

from trainwitness.core.canonical import DTYPE_NAMES
from trainwitness.core.errors import NotCapturable, TraceMismatch
from trainwitness.core.state import State

_SCALARS: dict[type, torch.dtype] = {bool: torch.bool, int: torch.int64, float: torch.float64}


class Live:
    """A model being trained, with names for everything in its State.

    Optimiser entries are `optim/PARAMETER/KEY`. Values that are not tensors get a tag: `KEY:int`, `KEY:float`,
    `KEY:bool` (a scalar), `KEY:none` (empty), `KEY:list` (its length, followed by `KEY/0`, `KEY/1`, ...).
    """

    def __init__(
        self, model: nn.Module, optimizer: torch.optim.Optimizer, scaler: torch.amp.GradScaler | None = None
    ) -> None:
        self.model, self.optimizer = model, optimizer
        self.scaler = scaler if scaler is not None and scaler.is_enabled() else None
        self._slots = _slots(model)
        self._names: dict[torch.Tensor, str] = {p: name for name, p in model.named_parameters()}
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                if parameter not in self._names:
                    raise NotCapturable(
                        f"the optimiser updates a parameter {list(parameter.shape)} that is not in the model",
                        hint="pass a model that holds every trained parameter (nn.ModuleList joins several)",
                    )

    def model_tensors(self) -> dict[str, torch.Tensor]:
        """The model's own tensors (parameters and buffers), live."""
        return {name: home[key] for name, home, key in self._slots if home[key] is not None}

    def tensors(self) -> dict[str, torch.Tensor]:
        """Every tensor of the State by name: the live ones where they are tensors, not copies."""
        found = {name: tensor.detach() for name, tensor in self.model_tensors().items()}
        for owner, remembered in self.optimizer.state.items():
            for key, value in remembered.items():
                found.update(_flatten(f"optim/{self._names[owner]}/{key}", value))
        if self.scaler is not None:
            state = self.scaler.state_dict()
            found["scaler/scale"] = torch.tensor(state["scale"], dtype=torch.float64)
            found["scaler/growth"] = torch.tensor(state["_growth_tracker"], dtype=torch.int64)
        for name, tensor in found.items():
            if tensor.dtype not in DTYPE_NAMES or tensor.layout != torch.strided:
                raise NotCapturable(
                    f"{name} is a {tensor.layout} tensor of {tensor.dtype}",
                    hint=f"a State holds dense tensors of {', '.join(sorted(DTYPE_NAMES.values()))}",
                )
        return found

    def state(self) -> State:
        """A copy of the State on CPU."""
        copies = {name: tensor.to("cpu", copy=True) for name, tensor in self.tensors().items()}
        return State({name: copies[name] for name in sorted(copies, key=str.encode)})

    def view(self) -> State:
        """The State on CPU, without a copy of what lies there: the next step overwrites it."""
        return State({name: tensor.cpu() for name, tensor in self.tensors().items()})

    def load(self, state: State) -> None:
        """Makes the live model, optimiser and scaler equal to `state`."""
        self._copy(self.model_tensors(), state, ("param/", "buffer/"))
        self._load_optimizer(state.part("optim"))
        self._load_scaler(state)

    def load_parameters(self, state: State) -> None:
        """Takes only the parameters from `state`; buffers, optimiser and scaler stay as they are."""
        self._copy({n: t for n, t in self.model_tensors().items() if n.startswith("param/")}, state, ("param/",))

    def load_alike(self, state: State) -> None:
        """Makes everything equal to `state`, which must have exactly the tensors that are there already."""
        _check_same_tensors(self.tensors(), state.tensors)
        self.load(state)

    def _copy(self, live: Mapping[str, torch.Tensor], state: State, parts: tuple[str, ...]) -> None:
        given = {n: t for n, t in state.tensors.items() if n.startswith(parts)}
        _check_same_tensors(live, given)
        with torch.no_grad():
            for name, tensor in live.items():
                tensor.copy_(given[name])

    def _load_scaler(self, state: State) -> None:
        scaler = state.part("scaler")
        if self.scaler is not None and scaler:
            full = self.scaler.state_dict()
            full |= {"scale": scaler["scale"].item(), "_growth_tracker": scaler["growth"].item()}
            self.scaler.load_state_dict(full)

    def _load_optimizer(self, entries: Mapping[str, torch.Tensor]) -> None:
        if not entries and not self.optimizer.state:
            return
        live = {n.removeprefix("optim/"): t for n, t in self.tensors().items() if n.startswith("optim/")}
        plain = not any(":" in name for name in entries)
        if plain and _signature(live) == _signature(entries):
            with torch.no_grad():
                for name, tensor in live.items():
                    tensor.copy_(entries[name])
            return
        # Not through load_state_dict, which casts what it is given to the parameters' dtype.
        self.optimizer.state.clear()
        for group in self.optimizer.param_groups:
            on_device = bool(group.get("capturable") or group.get("fused"))
            for parameter in group["params"]:
                remembered = _unflatten(entries, self._names[parameter] + "/")
                if remembered:
                    self.optimizer.state[parameter] = {
                        key: _placed(value, parameter.device, on_device or (parameter.dim() == 0 and key != "step"))
                        for key, value in remembered.items()
                    }

    def groups(self) -> list[dict[str, Any]]:
        """The optimiser's settings per parameter group (learning rate, momentum, betas, ...)."""
        return [
            {key: _plain(key, value) for key, value in group.items() if key != "params"}
            for group in self.optimizer.param_groups
        ]

    def set_groups(self, groups: list[dict[str, Any]]) -> None:
        """Puts settings read by `groups` back."""
        if len(groups) != len(self.optimizer.param_groups):
            raise TraceMismatch(
                f"the optimiser has {len(self.optimizer.param_groups)} parameter groups, the trace {len(groups)}"
            )
        for live, given in zip(self.optimizer.param_groups, groups, strict=True):
            for key, value in given.items():
                current = live.get(key)
                if isinstance(current, torch.Tensor):
                    current.fill_(value)
                else:
                    live[key] = tuple(value) if isinstance(current, tuple) else value


def _slots(model: nn.Module) -> list[tuple[str, dict[str, Any], str]]:
    """Name, module dictionary and key of every parameter and buffer, shared ones once.

    Walking the modules takes longer than a small step, so it is done once; a buffer that is replaced is still found.
    """
    slots, seen = [], set()
    for part, kind in (("param", "_parameters"), ("buffer", "_buffers")):
        for path, module in model.named_modules():
            home: dict[str, Any] = getattr(module, kind)
            for key, tensor in home.items():
                if tensor is not None and id(tensor) not in seen:
                    seen.add(id(tensor))
                    slots.append((f"{part}/{path}{'.' if path else ''}{key}", home, key))
    return slots


def _flatten(name: str, value: object) -> Iterator[tuple[str, torch.Tensor]]:
    if isinstance(value, torch.Tensor):
        yield name, value.detach()
    elif type(value) in _SCALARS:
        yield f"{name}:{type(value).__name__}", torch.tensor(value, dtype=_SCALARS[type(value)])
    elif value is None:
        yield f"{name}:none", torch.empty(0, dtype=torch.uint8)
    elif isinstance(value, (list, tuple)):
        yield f"{name}:list", torch.tensor(len(value), dtype=torch.int64)
        for index, item in enumerate(value):
            yield from _flatten(f"{name}/{index}", item)
    else:
        raise NotCapturable(
            f"the optimiser keeps {name} as {type(value).__name__}, which has no canonical bytes",
            hint="a State holds tensors, numbers, None and lists of them",
        )


def _unflatten(entries: Mapping[str, torch.Tensor], prefix: str) -> dict[str, Any]:
    keys = {n.removeprefix(prefix) for n in entries if n.startswith(prefix)}
    top = {key.partition(":")[0] for key in keys if "/" not in key}
    return {key: _value(entries, prefix + key) for key in top}


def _value(entries: Mapping[str, torch.Tensor], name: str) -> Any:
    if name in entries:
        return entries[name].clone()
    if f"{name}:list" in entries:
        return [_value(entries, f"{name}/{index}") for index in range(int(entries[f"{name}:list"]))]
    for kind in _SCALARS:
        if f"{name}:{kind.__name__}" in entries:
            return kind(entries[f"{name}:{kind.__name__}"].item())
    if f"{name}:none" in entries:
        return None
    raise TraceMismatch(f"the State lacks {name}")


def _signature(tensors: Mapping[str, torch.Tensor]) -> dict[str, tuple[torch.dtype, torch.Size]]:
    return {name: (tensor.dtype, tensor.shape) for name, tensor in tensors.items()}


def _check_same_tensors(live: Mapping[str, torch.Tensor], given: Mapping[str, torch.Tensor]) -> None:
    if _signature(live) == _signature(given):
        return
    for name in sorted(set(live) | set(given)):
        one, other = live.get(name), given.get(name)
        if one is None or other is None or (one.dtype, one.shape) != (other.dtype, other.shape):
            described = ["absent" if t is None else f"{t.dtype}{list(t.shape)}" for t in (one, other)]
            raise TraceMismatch(
                f"{name}: the model has {described[0]}, the State {described[1]}",
                hint="is this the task, and the precision, the trace was recorded with?",
            )


def _placed(value: Any, device: torch.device, on_device: bool) -> Any:
    """Tensors where PyTorch keeps them: counters on CPU unless told otherwise, the rest with the parameter."""
    if isinstance(value, torch.Tensor):
        return value.to(device) if value.dim() or on_device else value
    return [_placed(item, device, on_device) for item in value] if isinstance(value, list) else value


def _plain(key: str, value: Any) -> Any:
    if isinstance(value, (torch.Tensor, np.generic)) and (isinstance(value, np.generic) or value.numel() == 1):
        value = value.item()
    if isinstance(value, (list, tuple)):
        return [_plain(key, item) for item in value]
    if value is None or isinstance(value, (bool, int, str)) or (isinstance(value, float) and math.isfinite(value)):
        return value
    raise NotCapturable(
        f"the optimiser's setting {key} is {value!r}",
        hint="settings are finite numbers, booleans, text, None or lists",
    )

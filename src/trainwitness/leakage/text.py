"""What gradients of a language model give away: which tokens, and for one example their order."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from trainwitness.core.errors import UsageError
from trainwitness.core.state import State
from trainwitness.leakage.inputs import dlg
from trainwitness.leakage.inputs.target import Target
from trainwitness.tasks.dataset import Dataset
from trainwitness.tasks.domain import IntegerBox
from trainwitness.training.stepper import Stepper

Ids = npt.NDArray[np.int64]
SAME = 1e-4
"""Relative distance at which sums of float32 rows count as equal."""
UNKNOWN = -1


@dataclass(frozen=True)
class Embeddings:
    """Names of the token embedding, and of the learned positions where there are any."""

    tokens: str
    positions: str | None

    @classmethod
    def of(cls, target: Target) -> Embeddings:
        """The first embedding reads the ids; another with one row per position holds the positions."""
        found = [(n, m) for n, m in target.stepper.live.model.named_modules() if isinstance(m, nn.Embedding)]
        if not found or target.box.low.is_floating_point():
            raise UsageError("the model reads no tokens", hint="dlg and ig restore images and tables")
        length = target.stepper.task.dataset.inputs.shape[1]
        positions = next((name for name, module in found[1:] if module.num_embeddings == length), None)
        return cls(found[0][0], positions)


def tokens_present(target: Target) -> Ids:
    """Every token of the batch: a row of the embedding has a gradient only if its token was read."""
    rows = target.gradient[f"{Embeddings.of(target).tokens}.weight"]
    return rows.abs().amax(1).nonzero()[:, 0].cpu().numpy()


def ordered_tokens(target: Target) -> Ids:
    """The tokens of one example in their order; -1 where the order stays open.

    A position's own embedding is added to the token's, so its gradient is that of the sum there. A token's row of the
    gradient is the sum over the positions it stands at. Tokens that stand once, twice or three times are found by
    comparing such sums; one token may fill all the positions that are left (padding).
    """
    names = Embeddings.of(target)
    if names.positions is None or target.count != 1:
        raise UsageError("the order of tokens is read off for one example of a model with learned positions")
    by_token = target.gradient[f"{names.tokens}.weight"].double().cpu()
    by_position = target.gradient[f"{names.positions}.weight"].double().cpu()
    waiting = [int(token) for token in tokens_present(target)]
    order = np.full(len(by_position), UNKNOWN, np.int64)
    for times in (1, 2, 3):
        free = np.flatnonzero(order == UNKNOWN)
        if times == 3 and len(free) > 60:
            break
        for places, token in _sums(by_position, free, {t: by_token[t] for t in waiting}, times):
            if (order[list(places)] == UNKNOWN).all():
                order[list(places)] = token
                waiting.remove(token)
    left = np.flatnonzero(order == UNKNOWN)
    if len(waiting) == 1 and _near(by_position[left].sum(0), by_token[waiting[0]]):
        order[left] = waiting[0]
    return order


def _sums(
    by_position: torch.Tensor, free: Ids, wanted: Mapping[int, torch.Tensor], times: int
) -> list[tuple[tuple[int, ...], int]]:
    """(positions, token) wherever `times` positions sum to a token's row."""
    groups = np.array(list(itertools.combinations(free.tolist(), times)), np.int64).reshape(-1, times)
    if not len(groups) or not wanted:
        return []
    sums = by_position[groups].sum(1)
    found = []
    for token, row in wanted.items():
        distances = (sums - row).norm(dim=1)
        nearest = int(distances.argmin())
        if _near(sums[nearest], row):
            found.append((tuple(groups[nearest].tolist()), token))
    return found


def _near(found: torch.Tensor, wanted: torch.Tensor) -> bool:
    return float((found - wanted).norm()) <= SAME * float(wanted.norm())


def embedded(target: Target) -> Target:
    """The same target for a model that reads embeddings instead of tokens, so that DLG can move them."""
    names = Embeddings.of(target)
    key = f"{names.tokens}.weight"
    table = target.state.tensors[f"param/{key}"]
    task, length = target.stepper.task, target.stepper.task.dataset.inputs.shape[1]
    low, high = float(table.min()), float(table.max())

    def without_tokens() -> nn.Module:
        model = task.model()
        model.set_submodule(names.tokens, nn.Identity())
        return model

    def inside(unit: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        return low + (high - low) * unit.to(dtype)

    dummy = np.zeros((1, length, table.shape[1]), np.uint8)
    data = Dataset("embeddings", dummy, np.zeros(1, np.int64), IntegerBox(0, 1, classes=2), inside)
    stepper = Stepper(replace(task, model=without_tokens, dataset=data), target.stepper.numerics)
    state = State({name: t for name, t in target.state.tensors.items() if name != f"param/{key}"})
    gradient = {name: tensor for name, tensor in target.gradient.items() if name != key}
    return Target(stepper, state, gradient, target.count)


def dlg_tokens(
    target: Target, labels: torch.Tensor, *, steps: int = 200, restarts: int = 1, seed: int = 0
) -> tuple[Ids, float]:
    """DLG on embeddings; each position is then the nearest token that is known to occur. Also what is left over."""
    moved = embedded(target)
    restored = dlg.reconstruct(moved, labels, steps=steps, restarts=restarts, seed=seed, balanced=True)
    present = tokens_present(target)
    table = target.state.tensors[f"param/{Embeddings.of(target).tokens}.weight"].double()[torch.from_numpy(present)]
    found = moved.box.inside(restored.inputs).double().cpu()
    nearest = torch.cdist(found, table.expand(len(found), -1, -1)).argmin(2)
    return present[nearest.numpy()], restored.objective

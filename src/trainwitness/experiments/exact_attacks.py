"""Every attack against exact arithmetic: does another valid batch give the same weights, or the same leaf?

Two things may be equal. The *State* after the step: then the rest of the trace stands, and only the forged step's own
digest has to be written anew. The *leaf* (State, outputs and unrounded gradient sums): then even a root that was
published beforehand still fits. `same sums` counts batches whose gradient sums are equal.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from trainwitness.core.batch import Batch
from trainwitness.core.canonical import row_bytes, same_bits
from trainwitness.core.errors import UsageError
from trainwitness.core.state import State
from trainwitness.experiments.attacked import at_stages, problem_at
from trainwitness.experiments.experiment import Setting
from trainwitness.forging.binary_rank import binary_rank, pack
from trainwitness.forging.forge import attack
from trainwitness.forging.problem import Problem
from trainwitness.tasks.domain import Array
from trainwitness.training.exact.contributions import last_bits
from trainwitness.training.stepper import fetch

CASES: tuple[tuple[str, dict[str, int | float | str], int], ...] = (
    ("softmax-mnist", {}, 100),
    ("mlp-mnist", {"learning_rate": 0.1}, 300),
    ("lenet-mnist", {"learning_rate": 0.1}, 400),
    ("fcn-adult", {}, 200),
)
"""Task, options, the first step attacked."""
QUICK: tuple[tuple[str, dict[str, int | float | str], int], ...] = (("lenet-mnist", {"learning_rate": 0.1}, 120),)
ATTACKS: dict[str, tuple[str, bool, dict[str, Any]]] = {
    "swap-search, all": ("swap-search", False, {}),
    "swap-search, one example": ("swap-search", True, {}),
    "matching-pursuit, all": ("matching-pursuit", False, {}),
    "efficient-greedy, all": ("efficient-greedy", False, {"candidates": 20_000}),
    "greedy, all": ("greedy", False, {"candidates": 20}),
    "neighbour, one example": ("neighbour", True, {}),
    "optimise, one example": ("optimise", True, {"steps": 50}),
    "lattice, all": ("lattice", False, {}),
    "relabel": ("relabel", False, {}),
    "null-space, all": ("null-space", False, {}),
    "error-matrix, all": ("error-matrix", False, {}),
}
"""What is shown: the attack, whether one example is replaced or all, its settings."""


@dataclass(frozen=True)
class Outcome:
    """What a forged batch gave, beside the honest one."""

    valid: bool
    error: float
    weights: bool
    sums: bool
    leaf: bool
    why: str = ""
    """Why a verifier refuses the batch, whatever it gives."""


def run(setting: Setting) -> dict[str, Any]:
    rows: list[dict[str, Any]] = []
    certificates: list[str] = []
    steps, pool = (1, 200) if setting.quick else (2, 500)
    for name, options, stage in QUICK if setting.quick else CASES:
        task = setting.task(name, batch_size=50, **options)
        title = task.spec.name if task.spec else name
        whole: list[Problem] = []
        single: list[Problem] = []
        for at, run in at_stages(task, setting.numerics("exact"), [stage + 7 * k for k in range(steps)]):
            whole.append(problem_at(run, at, 50, pool_size=pool, seed=at))
            single.append(_least_loss(run.state(), problem_at(run, at, 1, pool_size=pool, seed=at)))
        for shown, (attack_name, one, settings) in ATTACKS.items():
            setting.advance(f"{title}, {shown}")
            found = [_attacked(p, attack_name, settings) for p in (single if one else whole)]
            rows.append(_row(title, shown, found))
        for shown, changes in (("low-loss swap", _low_loss_swaps), ("one value by 1", _one_value)):
            setting.advance(f"{title}, {shown}")
            tried = [_outcome(p, batch) for p in single for batch in changes(p, 3 if setting.quick else 10)]
            rows.append(_row(title, shown, tried))
        setting.advance(f"{title}, certificate")
        certificates.append(f"{title}: {_certificate(whole[-1], 100 if setting.quick else 400)}")
    notes = [
        "same State: after the step; same sums: the unrounded gradient sums; same leaf: both, and the outputs",
        "one example: the one with the smallest loss in its batch; low-loss swap: by the rows of its class that have "
        "the smallest",
        "one value by 1: single values of it raised or lowered by one unit, those first that move its outputs least",
        "certificate over GF(2), on the unrounded sums of linear layers: " + "; ".join(certificates),
    ]
    return {"rows": rows, "notes": notes}


def _attacked(problem: Problem, name: str, settings: dict[str, Any]) -> Outcome | str:
    """What came of it, or why the attack cannot be played on this step."""
    try:
        forgery = attack(problem, name, **settings)
    except UsageError as error:
        return str(error)
    if forgery.problems:
        return Outcome(False, forgery.error, False, False, False, why=forgery.problems[0])
    return _outcome(problem, forgery.batch)


def _certificate(problem: Problem, size: int) -> str:
    """Whether any two multisets of the batch's rows and some others can have the same sums on the same grids."""
    rows = [*problem.rows, *problem.pool][:size]
    bits = last_bits(problem.stepper, problem.before, rows, columns=20 * size, seed=problem.seed)
    rank = binary_rank(pack(bits))
    return f"rank {rank} of {len(rows)} rows" + (
        ", so no other multiset of them has the sums" if rank == size else ""
    )


def _outcome(problem: Problem, batch: Batch) -> Outcome:
    honest, forged = (_computed(problem, each) for each in (problem.batch, batch))
    same = [name for name, tensor in honest[0].tensors.items() if same_bits(tensor, forged[0].tensors[name])]
    return Outcome(
        valid=True,
        error=problem.error(batch),
        weights=len(same) == len(honest[0].tensors),
        sums=len(honest[1]) == len(forged[1]) and all(map(same_bits, honest[1], forged[1])),
        leaf=honest[2] == forged[2],
    )


def _computed(problem: Problem, batch: Batch) -> tuple[State, list[torch.Tensor], bytes]:
    """The State after the step, its gradient sums, and its leaf."""
    stepper = problem.stepper
    state = stepper(problem.before, batch)
    sums = [tensor.cpu() for witness in stepper.witnesses for _, tensor in sorted(witness.sums.items())]
    return state, sums, stepper.leaf(batch.step)


def _row(task: str, shown: str, found: Sequence[Outcome | str]) -> dict[str, Any]:
    outcomes = [outcome for outcome in found if isinstance(outcome, Outcome)]
    valid = [outcome for outcome in outcomes if outcome.valid]
    refused = [outcome if isinstance(outcome, str) else outcome.why for outcome in found]
    return {
        "task": task,
        "attack": shown,
        "batches": len(outcomes),
        "valid": len(valid),
        "smallest error": min((outcome.error for outcome in valid), default=None),
        "same State": sum(outcome.weights for outcome in valid),
        "same sums": sum(outcome.sums for outcome in valid),
        "same leaf": sum(outcome.leaf for outcome in valid),
        "refused": next((why for why in refused if why), None),
    }


def _losses(problem: Problem, rows: Sequence[int]) -> torch.Tensor:
    """The loss of each row at the State before the step, in float64."""
    stepper = problem.stepper
    stepper.live.load_parameters(problem.before)
    inputs, labels = fetch(stepper.task.dataset, rows, stepper.device, stepper.dtype)
    with torch.no_grad():
        output = stepper.live.model(inputs)
        return torch.stack([stepper.task.loss(output[k : k + 1], labels[k : k + 1]) for k in range(len(rows))]).cpu()


def _least_loss(state: State, problem: Problem) -> Problem:
    """The problem of replacing the batch's example with the smallest loss."""
    place = int(_losses(replace(problem, before=state), problem.rows).argmin())
    return replace(problem, positions=(place,))


def _low_loss_swaps(problem: Problem, count: int) -> Iterator[Batch]:
    labels = problem.stepper.task.dataset.labels
    alike = [row for row in problem.pool if labels[row] == labels[problem.leaving[0]]]
    for k in _losses(problem, alike).argsort()[:count].tolist():
        yield problem.batch_with([alike[k]])


def _one_value(problem: Problem, count: int) -> Iterator[Batch]:
    """The example with one value changed by 1: those changes first that move its outputs least."""
    dataset = problem.stepper.task.dataset
    row, place = problem.leaving[0], problem.positions[0]
    label = dataset.labels[row]
    changed = [variant for variant in _variants(dataset.inputs[row]) if not _outside(problem, variant)]
    for k in _movement(problem, changed).argsort()[:count].tolist():
        yield replace(problem.batch, carried={place: row_bytes((changed[k], label))})


def _variants(value: Array) -> Iterator[Array]:
    limits = np.iinfo(value.dtype)
    for index in np.ndindex(value.shape):
        for change in (-1, 1):
            if limits.min <= int(value[index]) + change <= limits.max:
                variant = value.copy()
                variant[index] = int(value[index]) + change
                yield variant


def _outside(problem: Problem, variant: Array) -> bool:
    dataset = problem.stepper.task.dataset
    return bool(dataset.domain.outside(variant[None], dataset.labels[problem.leaving[0]][None]))


def _movement(problem: Problem, variants: Sequence[Array]) -> torch.Tensor:
    stepper, dataset = problem.stepper, problem.stepper.task.dataset
    stepper.live.load_parameters(problem.before)
    inputs = np.stack([dataset.inputs[problem.leaving[0]], *variants])
    with torch.no_grad():
        output = stepper.live.model(dataset.prepare(torch.from_numpy(inputs).to(stepper.device), stepper.dtype))
    moved: torch.Tensor = (output[1:] - output[:1]).abs().amax(1).cpu()
    return moved

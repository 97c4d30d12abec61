"""What the experiments about label restoration share: a model at a stage, and images to draw batches from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np
import torch

from trainwitness.core.seeds import derive, permutation, random_bits
from trainwitness.core.state import State
from trainwitness.experiments.attacked import at_stages
from trainwitness.experiments.experiment import Setting
from trainwitness.leakage.labels.final_layer import FinalLayer
from trainwitness.leakage.labels.metrics import counts_of, le_acc, ln_acc
from trainwitness.leakage.labels.restorer import Auxiliary, restore
from trainwitness.leakage.labels.whole_counts import Counts
from trainwitness.tasks.dataset import Dataset
from trainwitness.tasks.registry import build_task, entries
from trainwitness.tasks.task import Option, Task, TaskSpec
from trainwitness.training.final_layer import FinalPass, final_pass, last_linear
from trainwitness.training.stepper import Stepper, fetch

COUNTING = ("ilrg", "pooled", "auxiliary", "likelihood")
PRESENCE = ("idlg", "gradinversion", "rlg")
AUXILIARY = 400
Options = Mapping[str, Option]


def standardised(task: Task) -> Task:
    """The task with pixels minus the training mean, over the standard deviation, as the paper's images are."""
    pixels = task.dataset.inputs
    mean, spread = float(pixels.mean()), float(pixels.std())

    def prepare(inputs: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        return (inputs.to(dtype) - mean) / spread

    assert task.test is not None
    data, test = (replace(part, prepare=prepare) for part in (task.dataset, task.test))
    return replace(task, dataset=data, test=test)


def leak_task(setting: Setting, name: str, options: Options = MappingProxyType({})) -> Task:
    """A built-in task; in quick runs without its data the digits variant, with the options that it knows."""
    source = next(entry.source for entry in entries() if entry.name == name)
    if setting.quick and not source.available(setting.data):
        name = {
            "lenet-cifar100": "lenet-digits",
            "lenet-mnist": "lenet-digits",
            "sigmoid-cifar100": "sigmoid-digits",
        }.get(name, "mlp-digits")
        known = next(entry.options.model_fields for entry in entries() if entry.name == name)
        options = {key: value for key, value in options.items() if key in known}
    return build_task(TaskSpec(name=name, options=dict(options)), data=setting.data)


@dataclass(frozen=True, eq=False)
class Scene:
    """A model at a State; batches come from `pool`, the attacker's own examples from the rest of the data."""

    stepper: Stepper
    state: State
    pool: Dataset
    auxiliary: Auxiliary

    @classmethod
    def at(cls, stepper: Stepper, *, pooled: bool = True) -> Scene:
        """At the stepper's State now. `pooled`: batches come from training and test rows (small data sets)."""
        task, state = stepper.task, stepper.state()
        assert task.test is not None
        order = permutation(derive(0, "auxiliary"), len(task.test))
        own, rest = order[:AUXILIARY], order[AUXILIARY:]
        inputs, labels = fetch(task.test, own.tolist(), stepper.device, stepper.dtype)
        seen = final_pass(stepper, state, inputs, labels)
        parts = [(task.dataset.inputs, task.dataset.labels)]
        if pooled and len(rest):
            parts.append((task.test.inputs[rest], task.test.labels[rest]))
        pool = replace(
            task.dataset,
            inputs=np.concatenate([inputs for inputs, _ in parts]),
            labels=np.concatenate([labels for _, labels in parts]),
        )
        return cls(stepper, state, pool, Auxiliary(seen.embeddings.double().cpu().numpy(), labels.cpu().numpy()))

    @property
    def layer(self) -> FinalLayer:
        _, last = last_linear(self.stepper.live.model)
        return FinalLayer.of(last.weight, last.bias)

    def draw(self, size: int, number: int) -> list[int]:
        """A random batch: without repetition where the pool has enough rows."""
        count, seed = len(self.pool), derive(0, "leaked", size, number)
        if size <= count:
            return [int(row) for row in permutation(seed, count)[:size]]
        return [int(word % np.uint64(count)) for word in random_bits(seed, size)]

    def share(self, rows: Sequence[int]) -> tuple[FinalPass, Counts]:
        """The last layer's view of a batch, and its true counts."""
        inputs, labels = fetch(self.pool, rows, self.stepper.device, self.stepper.dtype)
        seen = final_pass(self.stepper, self.state, inputs, labels)
        return seen, counts_of(labels.cpu().numpy(), self.layer.classes)


def scenes(
    setting: Setting,
    name: str,
    options: Options = MappingProxyType({}),
    stages: Sequence[int] = (0,),
    *,
    standard: bool = False,
) -> Iterator[tuple[int, Scene]]:
    """A task's model at each stage; where there are several, batches are from the training rows only."""
    task = leak_task(setting, name, options)
    for stage, stepper in at_stages(standardised(task) if standard else task, setting.numerics(), stages):
        yield stage, Scene.at(stepper, pooled=len(stages) == 1)


def accuracies(
    scene: Scene, size: int, repeats: int, methods: Sequence[str], *, rlg_repeats: int | None = None
) -> dict[str, dict[str, Any]]:
    """Method -> LeAcc, LnAcc and repetitions, over random batches."""
    found: dict[str, list[tuple[float, float | None]]] = {method: [] for method in methods}
    layer = scene.layer
    for number in range(repeats):
        seen, truth = scene.share(scene.draw(size, number))
        gradient = FinalLayer.of(seen.weight, seen.bias)
        for method in methods:
            if method == "rlg" and number >= (rlg_repeats or repeats):
                continue
            restored = restore(method, gradient, layer, size, scene.auxiliary)
            found[method].append((le_acc(restored, truth), ln_acc(restored, truth)))
    return {method: _means(pairs) for method, pairs in found.items()}


def _means(pairs: list[tuple[float, float | None]]) -> dict[str, Any]:
    counted = [number for _, number in pairs if number is not None]
    return {
        "LeAcc": float(np.mean([existence for existence, _ in pairs])),
        "LnAcc": float(np.mean(counted)) if counted else None,
        "repeats": len(pairs),
    }


def class_means(
    seen: FinalPass, labels: Sequence[int]
) -> Iterator[tuple[int, torch.Tensor, torch.Tensor, torch.Tensor]]:
    """For every class in a batch: its number, and its examples' embeddings, probabilities and slopes p - y."""
    probabilities = torch.softmax(seen.logits.double().cpu(), 1)
    embeddings, chosen = seen.embeddings.double().cpu(), torch.as_tensor(labels)
    slopes = probabilities - torch.nn.functional.one_hot(chosen, probabilities.shape[1])
    for c in sorted(set(chosen.tolist())):
        own = chosen == c
        yield c, embeddings[own], probabilities[own], slopes[own]

"""Steps as CUDA graphs: used where Python does the same every time, and with the same bits."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from trainwitness import Numerics, Stepper, TaskSpec, build_task, record, verify
from trainwitness.experiments.golden import zoo_task
from trainwitness.training.exact import replay
from trainwitness.training.exact.replay import Passes, Recorded, Replay, repeats
from trainwitness.training.exact.witness import Witness


class Again:
    """Stands in for a graph on a CPU: runs the passes and puts what they leave where the recording left it."""

    def __init__(self, passes: Passes) -> None:
        self.passes, self.recorded, self.replays = passes, None, 0

    def replay(self) -> None:
        held: Recorded = self.recorded  # type: ignore[assignment]
        witness = Witness()
        held.loss.copy_(self.passes(held.inputs, held.labels, witness))
        for key, sums in witness.sums.items():
            held.witness.sums[key].copy_(sums)
        held.witness.outputs.copy_(witness.outputs)  # type: ignore[union-attr, arg-type]
        held.largest.copy_(witness.largest())
        for parameter, gradient in held.gradients:
            gradient.copy_(parameter.grad)  # type: ignore[union-attr, arg-type]
            parameter.grad = None
        self.replays += 1


@pytest.fixture
def graphs(monkeypatch: pytest.MonkeyPatch) -> list[Again]:
    """Every recording made."""
    made: list[Again] = []

    def fake(key: Any, passes: Passes, inputs: torch.Tensor, labels: torch.Tensor, model: nn.Module) -> Recorded:
        graph, witness = Again(passes), Witness()
        inputs, labels = inputs.clone(), labels.clone()
        loss = passes(inputs, labels, witness)
        gradients = [(p, p.grad.clone() if p.grad is not None else None) for p in model.parameters()]
        for parameter in model.parameters():
            parameter.grad = None
        graph.recorded = Recorded(  # type: ignore[assignment]
            key,
            graph,
            inputs,
            labels,
            loss,
            witness,
            witness.largest(),
            gradients,  # type: ignore[arg-type]
        )
        made.append(graph)
        return graph.recorded  # type: ignore[return-value]

    monkeypatch.setattr(replay, "_record", fake)
    return made


def stepper(replaying: bool, name: str = "lenet-digits", **options: Any) -> Stepper:
    task = build_task(TaskSpec(name=name, options={"batch_size": 20, **options}))
    made = Stepper(task, Numerics(precision="exact", threads=1))
    if replaying:
        made._replay = Replay(made.live.model, task.loss)
    return made


@pytest.mark.parametrize("options", [{}, {"momentum": 0.9}, {"optimizer": "adam"}, {"accumulate": 2}], ids=str)
def test_replayed_steps_have_the_same_leaves(options: dict[str, Any], graphs: list[Again]) -> None:
    one, other = stepper(True, **options), stepper(False, **options)
    for step in range(5):
        batch = one.task.schedule.batch(step)
        assert torch.equal(one.run(batch), other.run(batch))
        assert one.leaf(step) == other.leaf(step)
    assert [graph.replays for graph in graphs] == ([] if "accumulate" in options else [4])


def test_another_shape_runs_as_it_is_and_the_graph_stays(graphs: list[Again]) -> None:
    small, large = (torch.ones(n, 4, dtype=torch.float64) for n in (2, 3))
    model = nn.Linear(4, 3).double()
    runs = Replay(model, F.cross_entropy)
    passes = counting(model, calls := [])
    for inputs in (large, large, large, small, large, small, large):
        model.zero_grad()
        runs(passes, inputs, torch.zeros(len(inputs), dtype=torch.int64), Witness())
    assert [graph.replays for graph in graphs] == [4]
    assert calls == [3, 3, 3, 3, 2, 3, 2, 3], "the first, one recording, four replays; the small ones as they are"
    model.weight.requires_grad_(False)
    runs(passes, large, torch.zeros(3, dtype=torch.int64), Witness())
    assert graphs[0].replays == 4


def counting(model: nn.Module, calls: list[int]) -> Passes:
    def passes(inputs: torch.Tensor, labels: torch.Tensor, witness: Witness) -> torch.Tensor:
        calls.append(len(inputs))
        witness.saw(inputs.amax())
        witness.outputs = model(inputs)
        loss = F.cross_entropy(witness.outputs, labels)
        loss.backward()
        witness.outputs = witness.outputs.detach()
        return loss.detach()

    return passes


def test_random_numbers_and_failures_end_it(graphs: list[Again], monkeypatch: pytest.MonkeyPatch) -> None:
    model = nn.Linear(4, 3).double()
    runs, drawing = Replay(model, F.cross_entropy), Witness()
    inputs, labels = torch.ones(2, 4, dtype=torch.float64), torch.zeros(2, dtype=torch.int64)
    drawing.drawn = True
    runs(counting(model, []), inputs, labels, drawing)
    runs(counting(model, []), inputs, labels, Witness())
    assert not graphs

    def failing(*_: object) -> Recorded:
        raise RuntimeError("operation not permitted when stream is capturing")

    monkeypatch.setattr(replay, "_record", failing)
    runs, calls = Replay(model, F.cross_entropy), []
    for _ in range(4):
        runs(counting(model, calls), inputs, labels, Witness())
    assert len(calls) == 4


class Own(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x


def hooked(add: Callable[[nn.Linear], object]) -> nn.Module:
    layer = nn.Linear(2, 2)
    add(layer)
    return nn.Sequential(layer)


def hooked_loss() -> nn.Module:
    loss = nn.CrossEntropyLoss()
    loss.register_forward_hook(print)
    return loss


def own_loss(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(logits, labels)


@pytest.mark.parametrize(
    ("model", "loss", "expected"),
    [
        (nn.Sequential(nn.Linear(2, 2), nn.ReLU()), F.cross_entropy, True),
        (nn.Sequential(nn.Linear(2, 2)), nn.CrossEntropyLoss(), True),
        (nn.Sequential(nn.Linear(2, 2)), hooked_loss(), False),
        (nn.Sequential(nn.Linear(2, 2)), own_loss, False),
        (nn.Sequential(Own()), F.cross_entropy, False),
        (hooked(lambda layer: layer.register_forward_hook(print)), F.cross_entropy, False),
        (hooked(lambda layer: layer.register_full_backward_hook(print)), F.cross_entropy, False),
        (hooked(lambda layer: layer.weight.register_hook(print)), F.cross_entropy, False),
        (hooked(lambda layer: setattr(layer, "forward", abs)), F.cross_entropy, False),
    ],
    ids=[
        "plain",
        "a loss module",
        "a loss with a hook",
        "own loss",
        "own module",
        "hook",
        "backward hook",
        "tensor hook",
        "own forward",
    ],
)
def test_what_repeats(model: nn.Module, loss: object, expected: bool) -> None:
    assert repeats(loss, list(model.modules()), [*model.parameters(), *model.buffers()]) is expected


def norms() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.GELU("tanh"), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(676, 10)
    )


@pytest.mark.cuda
@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize("kind", ["lenet", "norms", "adam", "zoo"])
def test_on_a_gpu_graphs_have_the_bits_of_single_operations(kind: str, deterministic: bool) -> None:
    from dataclasses import replace

    task = zoo_task() if kind == "zoo" else build_task(TaskSpec(name="lenet-digits", options={"batch_size": 20}))
    if kind == "norms":
        task = replace(task, model=norms, spec=None, initialisation="torch")
    if kind == "adam":
        task = replace(task, optimizer=lambda p, rate: torch.optim.AdamW(p, lr=rate))
    settings = Numerics(precision="exact", device="cuda", deterministic=deterministic)
    replayed, single = Stepper(task, settings), Stepper(task, settings)
    single.load(replayed.state())
    single._replay = None
    leaves = []
    for step in range(6):
        for each in (replayed, single):
            each.run(task.schedule.batch(step))
        leaves.append([each.begin_leaf(step) for each in (replayed, single)])
    assert all(one.result() == other.result() for one, other in leaves)  # each was on its way while the next step ran
    assert replayed._replay is not None
    assert (replayed._replay._recorded is not None) is (kind != "zoo")
    replayed.load(single(single.state(), task.schedule.batch(9)))
    assert replayed.state().digest() == single.state().digest()


@pytest.mark.cuda
def test_a_trace_of_replayed_steps_verifies_on_the_cpu(tmp_path: Path) -> None:
    task = build_task(TaskSpec(name="lenet-digits", options={"batch_size": 30, "momentum": 0.9}))
    numerics = Numerics(precision="exact", device="cuda")
    record(task, tmp_path / "t", steps=70, numerics=numerics, chunk_steps=8, checkpoint_every=20)
    assert verify(tmp_path / "t", numerics=Numerics(precision="exact")).verdict == "ACCEPT"

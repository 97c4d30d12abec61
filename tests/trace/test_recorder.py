"""The Recorder in other people's training loops."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, TensorDataset
from torch.utils.data import Dataset as TorchDataset

from trainwitness import Recorder, Trace
from trainwitness.commitments.merkle import Frontier
from trainwitness.core.canonical import row_bytes
from trainwitness.core.errors import NotCapturable, StorageError, TraceMismatch, UsageError
from trainwitness.training.live import Live
from trainwitness.training.randomness import seed_micro_batch

Rows = TensorDataset


def rows(count: int = 24) -> Rows:
    generator = torch.Generator().manual_seed(0)
    return TensorDataset(
        torch.randn(count, 4, generator=generator), torch.randint(0, 3, (count,), generator=generator)
    )


def network() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.3), nn.ReLU(), nn.Linear(8, 3))


class Loop:
    """Somebody's training loop: model, optimiser, scheduler, scaler, and the recorder in it."""

    def __init__(
        self,
        path: Path,
        *,
        optimizer: Callable[..., torch.optim.Optimizer] = torch.optim.Adam,
        precision: torch.dtype | None = None,
        accumulate: int = 1,
        workers: int = 0,
        data: TorchDataset[Any] | None = None,
        chunk_steps: int = 2,
        **recorder_options: Any,
    ) -> None:
        self.model = network()
        self.optimizer = optimizer(self.model.parameters(), lr=0.05)
        self.scheduler = torch.optim.lr_scheduler.StepLR(self.optimizer, 1, gamma=0.5)
        self.scaler = torch.amp.GradScaler("cpu", enabled=precision == torch.float16)
        self.precision, self.accumulate = precision, accumulate
        self.loader = DataLoader(data or rows(), batch_size=4, shuffle=True, num_workers=workers)
        self.recorder = Recorder(
            path,
            model=self.model,
            optimizer=self.optimizer,
            scaler=self.scaler,
            scheduler=self.scheduler,
            chunk_steps=chunk_steps,
            **recorder_options,
        )
        self.live = Live(self.model, self.optimizer, self.scaler)
        self.digests: list[str] = []

    def run(self, epochs: int = 2, stop_after: int | None = None, close: bool = True) -> None:
        taken = 0
        for _ in range(self.recorder.epoch, epochs):
            for number, (inputs, labels) in enumerate(self.recorder.loader(self.loader), start=1):
                with torch.autocast("cpu", dtype=self.precision, enabled=self.precision is not None):
                    loss = nn.functional.cross_entropy(self.model(inputs), labels) / self.accumulate
                self.scaler.scale(loss).backward()
                if number % self.accumulate == 0:
                    self.scaler.step(self.optimizer)
                    self.scaler.update()
                    self.optimizer.zero_grad()
                    self.digests.append(self.live.state().digest().hex())
                    taken += 1
                    if taken == stop_after:
                        return
            self.scheduler.step()
        if close:
            self.recorder.close()


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"optimizer": lambda p, lr: torch.optim.SGD(p, lr=lr, momentum=0.9)},
        {"optimizer": torch.optim.RMSprop},
        {"accumulate": 3},
        {"workers": 2},
        {"precision": torch.bfloat16},
        {"precision": torch.float16},
    ],
    ids=["adam", "momentum", "rmsprop", "accumulation", "workers", "bfloat16", "float16"],
)
def test_what_was_trained_is_what_was_recorded(tmp_path: Path, options: dict[str, Any]) -> None:
    loop = Loop(tmp_path / "t", **options)
    loop.run()
    trace = Trace.open(tmp_path / "t")
    assert trace.sealed
    assert trace.check().steps == len(loop.digests) == 12 // options.get("accumulate", 1)
    records = [segment.records[0] for segment in trace.segments()]
    assert [record.state for record in records] == loop.digests
    half = len(records) // 2
    for epoch, part in enumerate((records[:half], records[half:])):
        assert sorted(row for record in part for micro in record.rows for row in micro) == list(range(24))
        assert {record.epoch for record in part} == {epoch}
        assert {record.groups[0]["lr"] for record in part} == {0.05 / 2**epoch}
    precision = {None: "float32", torch.bfloat16: "bfloat16", torch.float16: "float16"}[options.get("precision")]
    assert trace.manifest.numerics.precision == precision
    assert trace.manifest.initialisation == "unstated"


def test_recorded_steps_can_be_recomputed_by_hand(tmp_path: Path) -> None:
    """From the trace alone, plain PyTorch with the recorded seed rule gives every next State, dropout included."""
    Loop(tmp_path / "t").run()
    trace, data = Trace.open(tmp_path / "t"), rows()
    for segment in trace.segments():
        record = segment.records[0]
        model = network()
        optimizer = torch.optim.Adam(model.parameters(), lr=record.groups[0]["lr"])
        live = Live(model, optimizer)
        live.load(segment.before)
        seed_micro_batch(trace.manifest.seed, record.step, 0)
        inputs, labels = data[record.rows[0]]
        nn.functional.cross_entropy(model(inputs), labels).backward()
        optimizer.step()
        assert live.state().digest().hex() == record.state


def test_the_data_root_covers_every_row(tmp_path: Path) -> None:
    Loop(tmp_path / "t").run()
    by_hand = Frontier(row_bytes(item) for item in rows()).root().hex()
    assert Trace.open(tmp_path / "t").manifest.data.root == by_hand


@pytest.mark.parametrize(("stop_after", "workers"), [*((steps, 0) for steps in range(1, 12)), (3, 2), (7, 2)])
def test_resuming_gives_the_uninterrupted_run(tmp_path: Path, stop_after: int, workers: int) -> None:
    straight = Loop(tmp_path / "straight")
    straight.run()
    first = Loop(tmp_path / "t", workers=workers)
    first.run(stop_after=stop_after)
    first.recorder.close(seal=False)
    unsealed = Trace.open(tmp_path / "t")
    assert not unsealed.sealed
    assert unsealed.check().steps == stop_after
    second = Loop(tmp_path / "t", resume=True, workers=workers)
    assert second.recorder.steps == stop_after
    second.run()
    resumed = Trace.open(tmp_path / "t")
    assert resumed.sealed
    assert resumed.check().final_state == straight.digests[-1]
    assert first.digests + second.digests == straight.digests
    assert [session.first_step for session in resumed.sessions] == [stop_after]


def test_a_resumed_loader_with_another_order_is_refused(tmp_path: Path) -> None:
    first = Loop(tmp_path / "t")
    first.run(stop_after=2)
    first.recorder.close(seal=False)
    second = Loop(tmp_path / "t", resume=True)
    second.loader = DataLoader(second.loader.dataset, batch_size=4, shuffle=False)
    with pytest.raises(TraceMismatch, match="order"):
        second.run()


def test_a_resumed_run_must_be_the_same_run(tmp_path: Path) -> None:
    first = Loop(tmp_path / "t")
    first.run(stop_after=2)
    first.recorder.close(seal=False)
    with pytest.raises(TraceMismatch, match="seed"):
        Loop(tmp_path / "t", resume=True, seed=3)
    with pytest.raises(TraceMismatch, match="data set"):
        Loop(tmp_path / "t", resume=True, data=rows(28)).run()


def test_resuming_a_sealed_trace_is_refused(tmp_path: Path) -> None:
    Loop(tmp_path / "t").run()
    with pytest.raises(StorageError, match="sealed"):
        Loop(tmp_path / "t", resume=True)
    with pytest.raises(StorageError, match="already holds a trace"):
        Loop(tmp_path / "t")


def test_resuming_nothing_begins(tmp_path: Path) -> None:
    Loop(tmp_path / "t", resume=True).run()
    assert Trace.open(tmp_path / "t").check().steps == 12


def test_an_epoch_left_early_is_followed_by_the_next(tmp_path: Path) -> None:
    loop = Loop(tmp_path / "t")
    for _ in range(2):
        for number, (inputs, labels) in enumerate(loop.recorder.loader(loop.loader)):
            if number == 2:
                break
            nn.functional.cross_entropy(loop.model(inputs), labels).backward()
            loop.optimizer.step()
    loop.recorder.close()
    records = [frame.record for frame in Trace.open(tmp_path / "t").frames()]
    assert [record.epoch for record in records[:2]] == [0, 0]
    assert records[-1].epoch == 1


def test_an_exception_leaves_an_unsealed_trace_with_every_step(tmp_path: Path) -> None:
    loop = Loop(tmp_path / "t")
    with contextlib.suppress(ZeroDivisionError), loop.recorder:
        loop.run(stop_after=5)
        raise ZeroDivisionError
    trace = Trace.open(tmp_path / "t")
    assert (trace.check().steps, trace.sealed) == (5, False)


def test_evaluation_and_new_gradients_between_steps_are_fine(tmp_path: Path) -> None:
    loop = Loop(tmp_path / "t")
    for inputs, labels in loop.recorder.loader(loop.loader):
        loop.optimizer.zero_grad()
        nn.functional.cross_entropy(loop.model(inputs), labels).backward()
        loop.optimizer.step()
        loop.model.eval()
        with torch.no_grad():
            loop.model(inputs)
        loop.model.train()
    loop.recorder.close()
    assert Trace.open(tmp_path / "t").check().steps == 6


def test_custom_batches_without_a_loader(tmp_path: Path) -> None:
    from trainwitness.trace.rows import data_facts

    model, data = nn.Linear(4, 3), rows()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with Recorder(tmp_path / "t", model=model, optimizer=optimizer, data=data_facts(data)) as recorder:
        for chosen in ([1, 2], [3, 4]):
            recorder.batch(chosen)
            inputs, labels = data[chosen]
            nn.functional.cross_entropy(model(inputs), labels).backward()
            optimizer.step()
    assert [frame.record.rows for frame in Trace.open(tmp_path / "t").frames()] == [[[1, 2]], [[3, 4]]]
    with pytest.raises(UsageError, match="closed"):
        recorder.batch([1])


# ---------------------------------------------------------------------- what cannot be recorded is said at once


class Augmented(TorchDataset[Any]):
    def __init__(self, noise: Callable[[int], float]) -> None:
        self.noise, self.rows = noise, rows()

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> Any:
        inputs, label = self.rows[index]
        return inputs + self.noise(index), label


class AugmentedWithRows(Augmented):
    def canonical_row(self, index: int) -> Any:
        return self.rows[index]


NOISES = {
    "python": lambda _: random.random(),
    "numpy": lambda _: float(np.random.rand()),
    "torch": lambda _: torch.rand(()).item(),
}


@pytest.mark.parametrize("kind", [Augmented, AugmentedWithRows])
@pytest.mark.parametrize("noise", NOISES.values(), ids=NOISES.keys())
@pytest.mark.parametrize("workers", [0, 2])
def test_an_unseeded_augmentation_is_refused_at_the_first_step(
    tmp_path: Path, kind: type[Augmented], noise: Callable[[int], float], workers: int
) -> None:
    loop = Loop(tmp_path / "t", data=kind(noise), workers=workers)
    with pytest.raises(NotCapturable, match="unseeded augmentation"):
        loop.run()
    assert loop.digests == []


def test_a_seeded_augmentation_is_recorded_over_its_canonical_rows(tmp_path: Path) -> None:
    Loop(tmp_path / "t", data=AugmentedWithRows(lambda index: index / 100)).run()
    plain = Frontier(row_bytes(item) for item in rows()).root().hex()
    assert Trace.open(tmp_path / "t").manifest.data.root == plain


class Stream(IterableDataset[Any]):
    def __iter__(self) -> Iterator[Any]:
        return iter(rows())


def test_an_iterable_data_set_is_refused(tmp_path: Path) -> None:
    model = network()
    recorder = Recorder(tmp_path / "t", model=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1))
    with pytest.raises(NotCapturable, match="no numbered rows"):
        next(iter(recorder.loader(DataLoader(Stream(), batch_size=4))))


def test_a_compiled_model_is_refused(tmp_path: Path) -> None:
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with pytest.raises(NotCapturable, match="compiled"):
        Recorder(tmp_path / "a", model=torch.compile(model), optimizer=optimizer)  # type: ignore[arg-type]
    model.compile()
    with pytest.raises(NotCapturable, match="compiled"):
        Recorder(tmp_path / "b", model=model, optimizer=optimizer)


def test_writing_to_the_model_between_steps_is_refused(tmp_path: Path) -> None:
    def clip(model: nn.Module) -> None:
        with torch.no_grad():
            model[0].weight.clamp_(-0.01, 0.01)

    def clip_data(model: nn.Module) -> None:
        model[0].weight.data.clamp_(-0.01, 0.01)

    def evaluate_in_train_mode(model: nn.Module) -> None:
        model(torch.randn(5, 4))

    for number, meddle in enumerate((clip, clip_data, evaluate_in_train_mode)):
        loop = Loop(tmp_path / str(number))
        batches = loop.recorder.loader(loop.loader)
        inputs, labels = next(batches)
        nn.functional.cross_entropy(loop.model(inputs), labels).backward()
        loop.optimizer.step()
        meddle(loop.model)
        with pytest.raises(NotCapturable, match=r"step 0: .* was changed outside the optimiser's step"):
            next(batches)


def test_a_step_without_a_batch_is_refused(tmp_path: Path) -> None:
    loop = Loop(tmp_path / "t")
    inputs, labels = loop.loader.dataset[:4]
    nn.functional.cross_entropy(loop.model(inputs), labels).backward()
    with pytest.raises(NotCapturable, match="no batch was announced"):
        loop.optimizer.step()


def test_two_steps_on_one_batch_are_refused(tmp_path: Path) -> None:
    loop = Loop(tmp_path / "t")
    for inputs, labels in loop.recorder.loader(loop.loader):
        nn.functional.cross_entropy(loop.model(inputs), labels).backward()
        loop.optimizer.step()
        with pytest.raises(NotCapturable, match="stepped twice"):
            loop.optimizer.step()
        break


def test_a_recorder_that_saw_no_step_says_so(tmp_path: Path) -> None:
    loop = Loop(tmp_path / "t")
    for _ in loop.recorder.loader(loop.loader):
        pass
    with pytest.raises(NotCapturable, match="no step was recorded"):
        loop.recorder.close()


def test_float16_steps_skipped_by_the_scaler_are_recorded_as_such(tmp_path: Path) -> None:
    model, data = nn.Linear(4, 3), rows()
    optimizer, scaler = torch.optim.SGD(model.parameters(), lr=0.1), torch.amp.GradScaler("cpu", init_scale=2.0**127)
    with Recorder(tmp_path / "t", model=model, optimizer=optimizer, scaler=scaler) as recorder:
        for inputs, labels in recorder.loader(DataLoader(data, batch_size=4)):
            optimizer.zero_grad()
            scaler.scale(nn.functional.cross_entropy(model(inputs), labels) * 8).backward()
            scaler.step(optimizer)
            scaler.update()
    segments = list(Trace.open(tmp_path / "t").segments())
    assert len(segments) == 6
    first = segments[0]
    assert torch.equal(first.before.tensors["param/weight"], first.after.tensors["param/weight"])
    assert first.after.tensors["scaler/scale"] == first.before.tensors["scaler/scale"] / 2
    assert not torch.equal(segments[-1].before.tensors["param/weight"], segments[-1].after.tensors["param/weight"])


# ---------------------------------------------------------------------- interruptions at awkward moments


def test_an_interruption_between_checkpoints_keeps_every_step(tmp_path: Path) -> None:
    for every, steps in ((3, 4), (3, 5), (2, 3)):
        path = tmp_path / f"{every}-{steps}"
        loop = Loop(path, checkpoint_every=every)
        loop.run(stop_after=steps)
        with contextlib.suppress(KeyboardInterrupt), loop.recorder:
            batches = loop.recorder.loader(loop.loader)
            next(batches)  # taken, and never trained on
            raise KeyboardInterrupt
        assert Trace.open(path).check().steps == steps
        resumed = Loop(path, checkpoint_every=every, resume=True)
        assert resumed.recorder.steps == steps
        resumed.recorder.close()
        assert Trace.open(path).sealed


def test_a_forward_pass_after_the_last_checkpoint_leaves_what_is_certain(tmp_path: Path) -> None:
    """Batch norm has moved on: the State of the last steps is gone, so they are not kept and nothing is sealed."""
    loop = Loop(tmp_path / "t", checkpoint_every=3)
    loop.run(stop_after=5)
    batches = loop.recorder.loader(loop.loader)
    loop.model(next(batches)[0])
    with pytest.raises(StorageError, match="last 2 steps have no State"):
        loop.recorder.close()
    trace = Trace.open(tmp_path / "t")
    assert (trace.check().steps, trace.sealed) == (3, False)


def test_a_refusal_waits_for_the_writer_and_keeps_the_good_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import time

    from trainwitness.trace.writer import TraceWriter

    append = TraceWriter.append
    monkeypatch.setattr(TraceWriter, "append", lambda *a: (time.sleep(0.1), append(*a))[1])
    loop = Loop(tmp_path / "t", chunk_steps=4)
    with contextlib.suppress(NotCapturable), loop.recorder:
        loop.run(stop_after=5)
        with torch.no_grad():
            loop.model[0].weight.mul_(0.5)
        next(loop.recorder.loader(loop.loader))
    files = sorted(path.name for path in (tmp_path / "t").iterdir())
    time.sleep(0.5)
    assert sorted(path.name for path in (tmp_path / "t").iterdir()) == files  # nobody writes after close
    assert Trace.open(tmp_path / "t").check().steps == 4


def test_a_loop_that_goes_on_after_a_storage_failure_is_told_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from trainwitness.trace.chunk import ChunkWriter

    def full(self: ChunkWriter) -> bytes:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(ChunkWriter, "finish", full)
    loop = Loop(tmp_path / "t")
    for _ in range(6):  # more often than there are buffers to run out of
        with pytest.raises(StorageError, match="No space left"):
            loop.run(epochs=99)


@pytest.mark.parametrize("accumulate", [2, 4])
def test_resuming_when_a_step_spans_two_epochs(tmp_path: Path, accumulate: int) -> None:
    def run(path: Path, stop_after: int | None, resume: bool = False) -> list[str]:
        torch.manual_seed(1)
        model = nn.Linear(4, 3)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        loader = DataLoader(rows(12), batch_size=4, shuffle=True)
        recorder = Recorder(path, model=model, optimizer=optimizer, resume=resume, chunk_steps=1)
        taken = accumulate * recorder.steps
        steps: list[str] = []
        for _ in range(recorder.epoch, 8):
            for inputs, labels in recorder.loader(loader):
                nn.functional.cross_entropy(model(inputs), labels).backward()
                taken += 1
                if taken % accumulate == 0:
                    optimizer.step()
                    optimizer.zero_grad()
                    steps.append(Live(model, optimizer).state().digest().hex())
                    if len(steps) == stop_after:
                        recorder.close(seal=False)
                        return steps
        recorder.close()
        return steps

    straight = run(tmp_path / "straight", None)
    for stop in range(1, len(straight)):
        path = tmp_path / str(stop)
        assert run(path, stop) + run(path, None, resume=True) == straight, stop


SCHEDULERS = {
    "MultiStepLR": lambda o: torch.optim.lr_scheduler.MultiStepLR(o, [3, 5], gamma=0.1),
    "ReduceLROnPlateau": lambda o: torch.optim.lr_scheduler.ReduceLROnPlateau(o, patience=1),
    "OneCycleLR": lambda o: torch.optim.lr_scheduler.OneCycleLR(o, 0.1, total_steps=20),
    "CosineAnnealingLR": lambda o: torch.optim.lr_scheduler.CosineAnnealingLR(o, 10),
    "SequentialLR-free LambdaLR": lambda o: torch.optim.lr_scheduler.LambdaLR(o, lambda k: 0.9**k),
}


@pytest.mark.parametrize("make", SCHEDULERS.values(), ids=SCHEDULERS.keys())
def test_schedulers_go_on_where_they_were(tmp_path: Path, make: Callable[[Any], Any]) -> None:
    def run(path: Path, stop_after: int | None, resume: bool = False) -> list[float]:
        torch.manual_seed(1)
        model = nn.Linear(4, 3)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        scheduler = make(optimizer)
        recorder = Recorder(path, model=model, optimizer=optimizer, scheduler=scheduler, resume=resume)
        rates: list[float] = []
        loader = DataLoader(rows(), batch_size=4, shuffle=True)
        for _ in range(recorder.epoch, 2):
            for inputs, labels in recorder.loader(loader):
                optimizer.zero_grad()
                loss = nn.functional.cross_entropy(model(inputs), labels)
                loss.backward()
                optimizer.step()
                rates.append(optimizer.param_groups[0]["lr"])
                args = (1.0,) if isinstance(scheduler, torch.optim.lr_scheduler.ReduceLROnPlateau) else ()
                scheduler.step(*args)
                if len(rates) == stop_after:
                    recorder.close(seal=False)
                    return rates
        recorder.close()
        return rates

    straight = run(tmp_path / "straight", None)
    assert run(tmp_path / "t", 4) + run(tmp_path / "t", None, resume=True) == straight
    finals = {Trace.open(tmp_path / name).check().final_state for name in ("straight", "t")}
    assert len(finals) == 1


def test_writing_to_the_model_after_the_batch_was_taken_is_refused(tmp_path: Path) -> None:
    loop = Loop(tmp_path / "t")
    inputs, _ = next(loop.recorder.loader(loop.loader))
    with torch.no_grad():
        loop.model[0].weight.mul_(0.5)
    with pytest.raises(NotCapturable, match="changed outside"):
        loop.model(inputs)


def test_resuming_with_another_optimiser_or_other_numerics_is_refused(tmp_path: Path) -> None:
    first = Loop(tmp_path / "t")
    first.run(stop_after=2)
    first.recorder.close(seal=False)
    with pytest.raises(TraceMismatch, match="optimiser Adam"):
        Loop(tmp_path / "t", optimizer=torch.optim.SGD, resume=True)
    second = Loop(tmp_path / "t", precision=torch.bfloat16, resume=True)
    with pytest.raises(TraceMismatch, match="precision float32, resumed with bfloat16"):
        second.run()


def test_parameters_in_half_precision_are_refused(tmp_path: Path) -> None:
    model = nn.Linear(2, 2).bfloat16()
    with pytest.raises(NotCapturable, match="bfloat16"):
        Recorder(tmp_path / "t", model=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1))


def test_settings_of_any_number_type_are_recorded_and_others_refused(tmp_path: Path) -> None:
    loop = Loop(tmp_path / "t", optimizer=lambda p, lr: torch.optim.SGD(p, lr=lr))
    loop.optimizer.param_groups[0]["lr"] = np.float32(0.25)
    loop.run(epochs=1)
    assert Trace.open(tmp_path / "t").check().steps == 6
    assert next(Trace.open(tmp_path / "t").frames()).record.groups[0]["lr"] == 0.25
    for number, bad in enumerate((float("inf"), object())):
        other = Loop(tmp_path / f"bad{number}")
        other.optimizer.param_groups[0]["extra"] = bad
        with pytest.raises(NotCapturable, match="setting extra"):
            other.run()


@pytest.mark.parametrize("seal", [True, False])
def test_a_disk_that_fails_once_at_close_is_told_and_leaves_only_whole_chunks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seal: bool
) -> None:
    """A second try after half a write would put a broken chunk in place."""
    import os

    loop = Loop(tmp_path / "t", chunk_steps=4)
    loop.run(stop_after=6)
    loop.recorder._pipeline.finish()  # type: ignore[union-attr]
    sync, failures = os.fsync, [OSError(28, "No space left on device")]

    def fails_once(descriptor: int) -> None:
        if failures:
            raise failures.pop()
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", fails_once)
    with pytest.raises(StorageError, match="No space left"):
        loop.recorder._writer.seal() if seal else loop.recorder._writer.flush()  # type: ignore[union-attr]
    loop.recorder._writer.flush()  # type: ignore[union-attr]
    trace = Trace.open(tmp_path / "t")
    assert (trace.check().steps, trace.sealed) == (4, False)
    assert not list((tmp_path / "t").glob("*.tmp"))


def test_leaving_a_trace_unsealed_on_a_full_disk_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from trainwitness.trace.chunk import ChunkWriter

    loop = Loop(tmp_path / "t", chunk_steps=99)
    loop.run(stop_after=3)

    def full(self: ChunkWriter) -> bytes:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(ChunkWriter, "finish", full)
    with pytest.raises(StorageError, match="No space left"):
        loop.recorder.close(seal=False)

"""`trainwitness record`: train a task and record every step."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from trainwitness.cli.output import DataOption, JsonOption, Output, SetOption, size_text, time_text

if TYPE_CHECKING:
    from trainwitness.core.numerics import Numerics
    from trainwitness.tasks.task import TaskSpec

PrecisionChoice = Literal["float32", "float16", "bfloat16", "float64", "exact"]
LONG_RECORDING_STEPS = 50


def record(
    task: Annotated[str, typer.Argument(help="A built-in task, or your own as package.module:function.")],
    out: Annotated[Path, typer.Option("--out", metavar="TRACE", help="The folder to record into.")],
    steps: Annotated[int, typer.Option(min=1, help="Steps to train.")] = 100,
    batch_size: Annotated[int | None, typer.Option(min=1, help="Examples per step.")] = None,
    lr: Annotated[float | None, typer.Option(min=0, help="Learning rate.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed of initialisation, order and dropout.")] = None,
    precision: Annotated[
        PrecisionChoice, typer.Option(help="Arithmetic; exact has the same bits on every machine.")
    ] = "float32",
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:1, ...")] = "cpu",
    threads: Annotated[int | None, typer.Option(min=1, help="CPU threads (default: PyTorch's choice).")] = None,
    deterministic: Annotated[bool, typer.Option("--deterministic", help="Deterministic algorithms only.")] = False,
    checkpoint_every: Annotated[
        int | None, typer.Option(min=1, help="Keep only every K-th State (default 1; exact: 4096).")
    ] = None,
    explicit_rows: Annotated[
        bool, typer.Option("--explicit-rows", help="In exact traces, write down the rows of every step.")
    ] = False,
    save_model: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also save the trained model, as safetensors.")
    ] = None,
    commitment: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The commitment to the training data; goes with --nonce.")
    ] = None,
    nonce: Annotated[
        str | None, typer.Option(help="Given to you after the commitment; both together decide the seed.")
    ] = None,
    option: SetOption = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with an interrupted recording.")] = False,
    data: DataOption = None,
    json: JsonOption = None,
) -> int:
    """Train a task and record every step as a trace.

    Example: trainwitness record lenet-digits --out run.trace --steps 200
    Example: trainwitness record lenet-digits --out exact.trace --precision exact --save-model model.safetensors
    """
    from trainwitness.core.numerics import Numerics
    from trainwitness.tasks.registry import build_task
    from trainwitness.trace.record import record as record_task

    output = Output(json)
    seed = _bound_seed(commitment, nonce, seed)
    spec = task_spec(task, option, batch_size=batch_size, learning_rate=lr, seed=seed)
    with wrong_options():
        numerics = Numerics(precision=precision, device=device, threads=threads, deterministic=deterministic)
    built = build_task(spec, data=data)
    if commitment is not None:
        _check_committed(built, commitment)
    if steps >= LONG_RECORDING_STEPS and not resume:
        _say_estimate(output, built, out, steps, numerics, checkpoint_every)
    with output.progress(f"recording {task}", steps) as advance:
        done = record_task(
            built,
            out,
            steps=steps,
            numerics=numerics,
            checkpoint_every=checkpoint_every,
            resume=resume,
            explicit_rows=explicit_rows,
            save_model=save_model,
            on_step=lambda _step, _loss: advance(1),
        )
    accuracy = "" if done.test_accuracy is None else f", test accuracy {done.test_accuracy:.3f}"
    loss = "" if done.first_loss is None else f", loss {done.first_loss:.4f} -> {done.last_loss:.4f}"
    output.say(f"recorded {done.steps} steps of {task} in {time_text(done.seconds)}{loss}{accuracy}")
    output.say(f"trace: {out}")
    output.result("record", {**asdict(done), "path": str(out)})
    return 0


def task_spec(task: str, option: list[str] | None, **named: Any) -> TaskSpec:
    """The TaskSpec of a command line; options that were not given are left to the task."""
    from trainwitness.tasks.registry import parse_option
    from trainwitness.tasks.task import TaskSpec

    options = dict(parse_option(text) for text in option or [])
    with wrong_options():
        return TaskSpec(name=task, options=options | {k: v for k, v in named.items() if v is not None})


@contextmanager
def wrong_options() -> Iterator[None]:
    """A value that the data model refuses is the user's mistake, not ours."""
    from pydantic import ValidationError

    from trainwitness.core.errors import UsageError

    try:
        yield
    except ValidationError as error:
        first = error.errors()[0]
        raise UsageError(f"{'.'.join(map(str, first['loc']))}: {first['msg'].lower()}") from error


def _bound_seed(commitment: Path | None, nonce: str | None, seed: int | None) -> int | None:
    """The seed, which a commitment and a nonce decide where they are given."""
    from trainwitness.commitments.commitment import bound_seed, read_commitment
    from trainwitness.core.errors import UsageError

    if commitment is None and nonce is None:
        return seed
    if commitment is None or nonce is None or seed is not None:
        raise UsageError(
            "a commitment and a nonce decide the seed together", hint="give --commitment and --nonce, and no --seed"
        )
    return bound_seed(read_commitment(commitment), nonce)


def _check_committed(task: Any, path: Path) -> None:
    from trainwitness.commitments.commitment import read_commitment
    from trainwitness.core.errors import TraceMismatch
    from trainwitness.trace.record import dataset_facts

    stated, held = read_commitment(path).data.root, dataset_facts(task.dataset).root
    if stated != held:
        raise TraceMismatch(f"{path} commits to data root {stated}, the task's data has {held}")


def _say_estimate(
    output: Output, task: Any, out: Path, steps: int, numerics: Numerics, checkpoint_every: int | None
) -> None:
    from trainwitness.trace.record import check_room, estimate

    expected = estimate(task, steps=steps, numerics=numerics, checkpoint_every=checkpoint_every)
    size, time = size_text(expected.stored_bytes), time_text(expected.seconds)
    output.say(f"{steps} steps will take about {time} and {size} on disk")
    check_room(out, expected.stored_bytes)

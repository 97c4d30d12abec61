"""`trainwitness demo`: the main job on embedded data."""

from __future__ import annotations

import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from trainwitness.cli.output import JsonOption, Output, size_text, time_text

TASK, STEPS = "lenet-digits", 150


def demo(
    out: Annotated[
        Path, typer.Option("--out", metavar="TRACE", help="Where the trace goes; an earlier demo there is replaced.")
    ] = Path("demo.trace"),
    json: JsonOption = None,
) -> int:
    """Record a small training run on data that needs no download, and read it back.

    Example: trainwitness demo
    """
    from trainwitness.tasks.registry import build_task
    from trainwitness.tasks.task import TaskSpec
    from trainwitness.trace.reader import Trace
    from trainwitness.trace.record import record

    output = Output(json)
    _remove_earlier_demo(out)
    options: dict[str, int | float | str | list[int]] = {"batch_size": 50, "learning_rate": 0.05, "momentum": 0.9}
    output.say(f"1. Training {TASK} for {STEPS} steps, recording every one of them ...")
    with output.progress("recording", STEPS) as advance:
        done = record(
            build_task(TaskSpec(name=TASK, options=options)), out, steps=STEPS, on_step=lambda _s, _l: advance(1)
        )
    output.say(
        f"   done in {time_text(done.seconds)}: loss {done.first_loss:.3f} -> {done.last_loss:.3f}, "
        f"test accuracy {done.test_accuracy:.3f}"
    )
    output.say("2. Reading the trace back and checking every digest ...")
    checked = Trace.open(out).check()
    raw = checked.state_bytes * checked.steps
    output.say(f"   {checked.steps} steps in {size_text(checked.stored_bytes)} ({size_text(raw)} uncompressed)")
    output.say(f"   step root {checked.step_root}")
    output.say(f"The trace lies in {out}. Look into it: trainwitness inspect {out}")
    output.result("demo", {"record": {**asdict(done), "path": str(out)}, "checked": asdict(checked)})
    return 0


def _remove_earlier_demo(out: Path) -> None:
    from trainwitness.core.errors import StorageError
    from trainwitness.trace.reader import Trace

    if not out.exists():
        return
    task = Trace.open(out).manifest.task
    if task is None or task.name != TASK:
        raise StorageError(f"{out}: holds a trace that is not a demo's", hint="choose another place with --out")
    shutil.rmtree(out)

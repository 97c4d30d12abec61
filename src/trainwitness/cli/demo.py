"""`trainwitness demo`: the main job on embedded data."""

from __future__ import annotations

import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from trainwitness.cli.output import JsonOption, Output, size_text, time_text
from trainwitness.cli.verify import say_verdict

TASK, STEPS, ALTERED = "lenet-digits", 100, 40
OPTIONS: dict[str, int | float | str | list[int]] = {"batch_size": 50, "learning_rate": 0.05, "momentum": 0.9}


def demo(
    out: Annotated[
        Path, typer.Option("--out", metavar="TRACE", help="Where the trace goes; an earlier demo there is replaced.")
    ] = Path("demo.trace"),
    json: JsonOption = None,
) -> int:
    """Record a small training run on data that needs no download, verify it, alter it, and verify it again.

    Example: trainwitness demo
    """
    from trainwitness.core.verdict import Threshold
    from trainwitness.tasks.registry import build_task
    from trainwitness.tasks.task import TaskSpec
    from trainwitness.trace.format import StepRecord
    from trainwitness.trace.reader import Trace
    from trainwitness.trace.record import record
    from trainwitness.trace.rewrite import rewrite
    from trainwitness.verification.verify import verify

    output, altered = Output(json), out.with_name(f"{out.name}-altered")
    for path in (out, altered):
        _remove_earlier_demo(path)
    output.say(f"1. Training {TASK} for {STEPS} steps, recording every one of them ...")
    with output.progress("recording", STEPS) as advance:
        task = build_task(TaskSpec(name=TASK, options=OPTIONS))
        done = record(task, out, steps=STEPS, on_step=lambda _s, _l: advance(1))
    checked = Trace.open(out).check()
    output.say(
        f"   done in {time_text(done.seconds)}: loss {done.first_loss:.3f} -> {done.last_loss:.3f}, "
        f"test accuracy {done.test_accuracy:.3f}; {size_text(checked.stored_bytes)} on disk"
    )
    output.say("\n2. Computing every step again, from its stored State and batch ...")
    with output.progress("recomputing", STEPS) as advance:
        honest = verify(out, threshold=Threshold(value=1e-6), on_step=lambda _: advance(1))
    say_verdict(output, honest)

    def swap_a_row(step: StepRecord) -> StepRecord:
        if step.step != ALTERED:
            return step
        return step.model_copy(update={"rows": [[(step.rows[0][0] + 1) % 1500, *step.rows[0][1:]]]})

    output.say(f"\n3. The owner now claims one other image in step {ALTERED}, and makes every digest fit ...")
    rewrite(Trace.open(out), altered, swap_a_row)
    with output.progress("recomputing", STEPS) as advance:
        caught = verify(altered, threshold=Threshold(value=1e-6), on_step=lambda _: advance(1))
    say_verdict(output, caught)
    output.say(f"\nThe traces lie in {out} and {altered}. Look into one: trainwitness inspect {out}")
    output.result(
        "demo",
        {
            "record": {**asdict(done), "path": str(out)},
            "checked": asdict(checked),
            "honest": honest.model_dump(mode="json"),
            "altered": caught.model_dump(mode="json"),
        },
    )
    return 0 if (honest.verdict, caught.verdict) == ("ACCEPT", "REJECT") else 1


def _remove_earlier_demo(out: Path) -> None:
    from trainwitness.core.errors import StorageError
    from trainwitness.trace.format import LOCK, MANIFEST, TEMPORARY
    from trainwitness.trace.reader import Trace

    if not out.exists():
        return
    unfinished = out.is_dir() and all(p.name == LOCK or p.name.endswith(TEMPORARY) for p in out.iterdir())
    if not unfinished:
        task = Trace.open(out).manifest.task if (out / MANIFEST).is_file() else None
        if task is None or (task.name, task.options) != (TASK, OPTIONS):
            raise StorageError(f"{out}: is there already and is not a demo", hint="choose another place with --out")
    shutil.rmtree(out)

"""Going on with an interrupted recording: is there one, and is it the same run?"""

from __future__ import annotations

from pathlib import Path

from trainwitness.core.errors import StorageError, TraceMismatch
from trainwitness.core.numerics import Numerics
from trainwitness.tasks.task import TaskSpec
from trainwitness.trace import format as f
from trainwitness.trace.reader import Trace
from trainwitness.trace.writer import refuse_used_folder
from trainwitness.training.live import Live


def interrupted(path: Path) -> Trace | None:
    """The trace to go on with; None if it was killed before its first chunk was written, so that one begins anew."""
    if not (path / f.MANIFEST).exists():
        refuse_used_folder(path)
        return None
    trace = Trace.open(path)
    if trace.sealed:
        raise StorageError(f"{path}: this trace is sealed; nothing is left to resume")
    if trace.steps == 0:
        (path / f.MANIFEST).unlink()
        return None
    return trace


def check_same_run(
    trace: Trace,
    live: Live,
    *,
    task: TaskSpec | None,
    seed: int,
    numerics: Numerics | None,
    data: f.DataFacts | None,
) -> None:
    """Refuses to go on with another task, seed, kind of model or optimiser, Numerics or data set."""
    manifest, path = trace.manifest, trace.path
    mine = (task, seed, type(live.model).__name__, type(live.optimizer).__name__)
    recorded = (manifest.task, manifest.seed, manifest.model, manifest.optimizer)
    for name, one, other in zip(("task", "seed", "model", "optimiser"), mine, recorded, strict=True):
        if one != other:
            raise TraceMismatch(f"{path}: recorded with {name} {other}, resumed with {one}")
    if numerics is not None:
        check_same_numerics(manifest.numerics, numerics)
    if data is not None and data != manifest.data:
        raise TraceMismatch(f"{path}: the data set is not the one this trace was recorded with")


def check_same_numerics(recorded: Numerics, now: Numerics) -> None:
    """Refuses other Numerics than the recording began with."""
    for name, value in recorded.model_dump().items():
        if value != getattr(now, name):
            raise TraceMismatch(
                f"recorded with {name} {value}, resumed with {getattr(now, name)}",
                hint="resume with the same precision, device, threads and kernel switches",
            )

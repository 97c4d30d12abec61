"""Results of experiments that were kept as JSON: reading them, and running what is missing."""

from __future__ import annotations

import functools
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from trainwitness.core.environment import current_environment
from trainwitness.core.errors import ResultDamaged, StorageError, TrainwitnessError
from trainwitness.core.result import Result
from trainwitness.experiments.experiment import EXPERIMENTS, Row, Setting, find

FAMILY = "reproduce/"
NOT_MEASURED = (
    ("paper 000, Table 1", "built in", "tasks", "the four reference networks"),
    ("paper 004, all tables", "not built yet", "-", "restoring labels from gradients"),
)
"""What the papers show that is no experiment here: reproduces, status, command, about."""


@dataclass(frozen=True)
class Kept:
    """One measured table or figure and the machine it was measured on."""

    path: Path
    name: str
    command: Sequence[str]
    environment: Mapping[str, Any]
    result: Mapping[str, Any]

    @property
    def rows(self) -> Sequence[Row]:
        rows: Sequence[Row] = self.result["rows"]
        return rows

    @property
    def device(self) -> str:
        return str(self.result.get("device", "cpu"))

    @property
    def quick(self) -> bool:
        return bool(self.result.get("quick"))

    @property
    def seconds(self) -> float | None:
        seconds = self.result.get("seconds")
        return float(seconds) if isinstance(seconds, (int, float)) else None

    @property
    def machine(self) -> str:
        on_gpu = self.device.startswith("cuda")
        return str(self.environment["gpu"] if on_gpu else self.environment["processor"])


def read_kept(folder: Path) -> list[Kept]:
    """All results of `reproduce` in a folder, by experiment and file name; other results there are left out."""
    found = [kept for path in sorted(folder.glob("*.json")) if (kept := _read(path)) is not None]
    order = list(EXPERIMENTS)
    return sorted(found, key=lambda kept: order.index(kept.name) if kept.name in order else len(order))


def _read(path: Path) -> Kept | None:
    try:
        envelope: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        kind = str(envelope["kind"])
        if not kind.startswith(FAMILY):
            return None
        kept = Kept(path, kind[len(FAMILY) :], envelope["command"], envelope["environment"], envelope["result"])
        if not (kept.rows and isinstance(kept.result["notes"], list) and kept.machine):
            raise ValueError("no rows")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ResultDamaged(f"{path}: not a result of reproduce: {error}", hint="remove or rename it") from error
    return kept


def listed(folders: Sequence[Path]) -> list[dict[str, Any]]:
    """Every table and figure with where it was measured, how long that took, and the command."""
    kept = [one for folder in folders for one in read_kept(folder)]
    rows: list[dict[str, Any]] = []
    for name, (reproduces, about) in EXPERIMENTS.items():
        own = [one for one in kept if one.name == name]
        quick = [one.seconds for one in own if one.quick and one.seconds is not None]
        rows.append(
            {"reproduces": reproduces, "status": ", ".join(map(_status, own)) or "not measured here"}
            | {"time, quick": f"{min(quick):.0f} s" if quick else "under 1 min"}
            | {"command": " ".join(command_of(name, quick=True)[1:]), "about": about}
        )
    return rows + [
        {"reproduces": what, "status": status, "time, quick": "-", "command": command, "about": about}
        for what, status, command, about in NOT_MEASURED
    ]


def _status(kept: Kept) -> str:
    time = "" if kept.seconds is None else f" in {kept.seconds:.0f} s"
    return f"{kept.device}{' quick' if kept.quick else ''}{time}"


def measure(name: str, setting: Setting) -> dict[str, Any]:
    """Runs one experiment; the result says how it was run and how long it took."""
    started = time.perf_counter()
    result = find(name).run(setting)
    seconds = round(time.perf_counter() - started, 1)
    return {"quick": setting.quick, "device": setting.device, "seconds": seconds, **result}


@dataclass(frozen=True)
class Outcome:
    """What became of one experiment of a whole run."""

    name: str
    path: Path
    seconds: float | None = None
    resumed: bool = False
    failure: TrainwitnessError | None = None


def measure_all(
    setting: Setting, folder: Path, names: Sequence[str] = tuple(EXPERIMENTS), *, say: Callable[[str], None] = print
) -> Iterator[Outcome]:
    """Every experiment, each kept as soon as it is measured; what an earlier run kept is not measured again."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"{folder}: cannot be made: {error.strerror}", hint="choose another place") from error
    for number, name in enumerate(names, start=1):
        path = folder / f"{name}-{setting.device}{'-quick' if setting.quick else ''}.json"
        if path.exists() and (kept := _read(path)) is not None:
            yield Outcome(name, path, kept.seconds, resumed=True)
            continue
        place = f"{number} of {len(names)}: {name}"
        say(place)
        try:
            result = measure(name, replace(setting, advance=functools.partial(_say_part, say, place)))
        except TrainwitnessError as error:
            yield Outcome(name, path, failure=error)
            continue
        _keep(path, name, setting, result)
        yield Outcome(name, path, result["seconds"])


def _say_part(say: Callable[[str], None], place: str, part: str) -> None:
    say(f"{place}: {part}")


def command_of(name: str, *, quick: bool, device: str = "cpu") -> list[str]:
    """What a user types to measure one experiment."""
    words = ["trainwitness", "reproduce", name]
    return words + ["--quick"] * quick + (["--device", device] if device != "cpu" else [])


def _keep(path: Path, name: str, setting: Setting, result: dict[str, Any]) -> None:
    command = command_of(name, quick=setting.quick, device=setting.device)
    told = Result(kind=FAMILY + name, command=command, environment=current_environment(), result=result)
    unfinished = path.with_suffix(".tmp")
    try:
        unfinished.write_text(told.to_json() + "\n", encoding="utf-8")
        unfinished.rename(path)
    except OSError as error:
        raise StorageError(f"{path}: cannot be written: {error.strerror}", hint="make room") from error

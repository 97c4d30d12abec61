"""Tasks by name: the built-in ones, and a user's own as `package.module:function`."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from torch import nn

from trainwitness.core.errors import UsageError
from trainwitness.tasks.data.files import Source
from trainwitness.tasks.task import Option, Task, TaskSpec

OptionsT = TypeVar("OptionsT", bound=BaseModel)
Builder = Callable[[Path | None, OptionsT], Task]


@dataclass(frozen=True)
class Entry:
    """A registered task: `build(data, options)` makes it, `model()` its default network."""

    name: str
    about: str
    source: Source
    options: type[BaseModel]
    model: Callable[[], nn.Module]
    build: Builder[Any]


_REGISTRY: dict[str, Entry] = {}


def register(
    name: str, *, about: str, source: Source, options: type[OptionsT], model: Callable[[], nn.Module]
) -> Callable[[Builder[OptionsT]], Builder[OptionsT]]:
    """Decorator: makes a builder known under `name`, with the model of its options."""

    def add(build: Builder[OptionsT]) -> Builder[OptionsT]:
        _REGISTRY[name] = Entry(name, about, source, options, model, build)
        return build

    return add


def entries() -> list[Entry]:
    """All built-in tasks, by name."""
    importlib.import_module("trainwitness.tasks.builtin")
    return [_REGISTRY[name] for name in sorted(_REGISTRY)]


def build_task(spec: TaskSpec | str, *, data: Path | None = None) -> Task:
    """The Task that `spec` names. `data` is the folder of data sets (default: `TRAINWITNESS_DATA`).

    >>> build_task("softmax-digits").dataset.name
    'digits'
    """
    spec = TaskSpec(name=spec) if isinstance(spec, str) else spec
    if ":" in spec.name:
        return _user_task(spec)
    known = {entry.name: entry for entry in entries()}
    if spec.name not in known:
        raise UsageError(
            f"unknown task {spec.name!r}",
            hint=f"built-in tasks: {', '.join(known)}; your own: package.module:function",
        )
    entry = known[spec.name]
    return replace(entry.build(data, _options(entry, spec)), spec=spec)


def full_options(spec: TaskSpec) -> dict[str, Any]:
    """The options of a spec with a built-in task's defaults filled in."""
    known = {entry.name: entry for entry in entries()}
    return _options(known[spec.name], spec).model_dump() if spec.name in known else dict(spec.options)


def _options(entry: Entry, spec: TaskSpec) -> BaseModel:
    try:
        return entry.options.model_validate(spec.options)
    except ValidationError as error:
        first = error.errors()[0]
        known = ", ".join(f"{name}={field.default}" for name, field in entry.options.model_fields.items())
        raise UsageError(
            f"task {spec.name!r}, option {'.'.join(map(str, first['loc']))}: {first['msg'].lower()}",
            hint=f"options and their defaults: {known}",
        ) from error


def user_object(spec: TaskSpec) -> Any:
    """What a user's own function, `package.module:function`, returns for the spec's options."""
    module_name, _, function_name = spec.name.partition(":")
    build = getattr(_import(module_name, spec.name), function_name, None)
    if not callable(build):
        raise UsageError(f"task {spec.name!r}: {module_name} has no function {function_name!r}")
    try:
        inspect.signature(build).bind(**spec.options)
    except TypeError as error:
        raise UsageError(f"task {spec.name!r}: {error}", hint="the options become keyword arguments") from error
    return build(**spec.options)


def _user_task(spec: TaskSpec) -> Task:
    task = user_object(spec)
    if not isinstance(task, Task):
        raise UsageError(
            f"task {spec.name!r}: the function returned {type(task).__name__}",
            hint="return a trainwitness.Task",
        )
    return replace(task, spec=spec)


def _import(module_name: str, task_name: str) -> ModuleType:
    here = str(Path.cwd())
    if here not in sys.path:  # console scripts do not look in the current folder
        sys.path.insert(0, here)
    try:
        return importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        raise UsageError(
            f"task {task_name!r}: no module {error.name!r}",
            hint="write package.module:function, with the module in the current folder or installed",
        ) from error


def parse_option(text: str) -> tuple[str, Option]:
    """`key=value` from the command line: an integer, a number, a list of integers (`128,64`) or text."""
    key, separator, value = text.partition("=")
    if not separator or not key:
        raise UsageError(f"option {text!r} is not key=value")
    if "," in value and all(part.strip().lstrip("-").isdigit() for part in value.split(",")):
        return key, [int(part) for part in value.split(",")]
    for kind in (int, float):
        try:
            return key, kind(value)
        except ValueError:
            continue
    return key, value

"""Reading a trace ahead of recomputing it.

A thread of its own reads while steps are computed. But where the step keeps every core busy and a State is decoded in
less than a millisecond, that thread takes turns with PyTorch's and makes them wait for one another: then a few
segments are read at a time, in between.
"""

from __future__ import annotations

import itertools
import os
import queue
import threading
from collections.abc import Iterable, Iterator
from typing import TypeVar

import torch

from trainwitness.core.numerics import Numerics

T = TypeVar("T")


_SMALL = 4 << 20


def read_ahead(items: Iterable[T], numerics: Numerics, state_bytes: int = 0) -> Iterator[T]:
    """The same items, produced ahead of their use; each holds States of `state_bytes`."""
    spare = torch.device(numerics.device).type != "cpu" or (numerics.threads or 1) < (os.cpu_count() or 1)
    return _in_thread(items) if spare or state_bytes > _SMALL else _by_few(items)


def _by_few(items: Iterable[T], few: int = 4) -> Iterator[T]:
    source = iter(items)
    while batch := list(itertools.islice(source, few)):
        yield from batch


def _in_thread(items: Iterable[T], depth: int = 2) -> Iterator[T]:
    ready: queue.Queue[tuple[str, object]] = queue.Queue(maxsize=depth)
    stopped = threading.Event()

    def put(kind: str, value: object) -> bool:
        while not stopped.is_set():
            try:
                ready.put((kind, value), timeout=0.1)
            except queue.Full:
                continue
            return True
        return False

    def produce() -> None:
        try:
            for item in items:
                if not put("item", item):
                    return
            put("end", None)
        except BaseException as error:
            put("error", error)

    threading.Thread(target=produce, name="trainwitness-reader", daemon=True).start()
    try:
        while True:
            kind, value = ready.get()
            if kind == "end":
                return
            if kind == "error":
                raise value  # type: ignore[misc]
            yield value  # type: ignore[misc]
    finally:
        stopped.set()

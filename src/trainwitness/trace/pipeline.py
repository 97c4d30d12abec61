"""Recording beside training: States are copied at once, compressed and written by a thread of its own."""

from __future__ import annotations

import queue
import threading
from collections.abc import Mapping

import torch

from trainwitness.trace.format import StepRecord
from trainwitness.trace.layout import Buffer, Layout
from trainwitness.trace.writer import TraceWriter

_BUFFERS = 3
"""The State before (to take differences from), the one being written, the one being copied."""

_Job = tuple[StepRecord | None, Buffer | None]


class Pipeline:
    """Hands steps to a TraceWriter in the background; memory stays at three States.

    A failure of the writer (a full disk) is raised in the training thread at the next call.
    """

    def __init__(self, writer: TraceWriter) -> None:
        self._writer = writer
        self._jobs: queue.Queue[_Job | None] = queue.Queue(maxsize=64)
        self._free: queue.Queue[Buffer | None] = queue.Queue()
        for _ in range(_BUFFERS - 1):  # the writer already holds the initial State
            self._free.put(None)
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._work, name="trainwitness-writer", daemon=True)
        self._thread.start()

    def submit(self, record: StepRecord | None, tensors: Mapping[str, torch.Tensor] | None) -> None:
        """Records a step; copies `tensors` (its State, where it is a checkpoint) before returning.

        Without a record, `tensors` is the State of the last step, which was handed over without one.
        """
        self._raise_failure()
        buffer = None
        if tensors is not None:
            buffer = self._free.get()
            if buffer is None or not buffer.layout.fits(tensors):
                buffer = Buffer(Layout.of(tensors))
            buffer.copy_from(tensors)
        self._jobs.put((record, buffer))

    def finish(self) -> None:
        """Waits until everything handed over is with the writer."""
        if self._thread.is_alive():
            self._jobs.put(None)
            self._thread.join()
        self._raise_failure()

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            record, buffer = job
            freed = buffer
            if self._failure is None:
                try:
                    freed = self._writer.append(record, buffer)
                except BaseException as failure:
                    self._writer.abandon()
                    self._failure = failure
            if buffer is not None:
                self._free.put(freed)

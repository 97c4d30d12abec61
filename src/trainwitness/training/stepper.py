"""The step function g(state, batch) -> state. Training, recording and everything that recomputes call this one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch

from trainwitness.core.batch import Batch
from trainwitness.core.errors import UsageError
from trainwitness.core.numerics import Numerics
from trainwitness.core.seeds import derive
from trainwitness.core.state import State
from trainwitness.tasks.dataset import Dataset
from trainwitness.tasks.initial import initial_model
from trainwitness.tasks.task import Task
from trainwitness.training.apply_numerics import COMPUTE_DTYPE, applied, autocast, check_device, one_thread
from trainwitness.training.exact.arithmetic import arithmetic
from trainwitness.training.exact.convert import check_supported
from trainwitness.training.exact.leaf import PendingLeaf, begin_leaf
from trainwitness.training.exact.optimisers import exact_optimizer
from trainwitness.training.exact.replay import Replay
from trainwitness.training.exact.witness import Witness
from trainwitness.training.live import Live
from trainwitness.training.private import PrivateGradient
from trainwitness.training.randomness import seed_micro_batch

Announce = Callable[[Sequence[int]], None]


class Stepper:
    """g for one Task under one Numerics; the model stays built between calls.

    `stepper(state, batch)` is the pure function: the same State and Batch give the same State, whatever was
    computed before. Training in a row skips the loading: `run` continues from wherever the live model is.
    A new Stepper holds the task's initial State.
    """

    def __init__(self, task: Task, numerics: Numerics | None = None) -> None:
        self.task, self.numerics = task, numerics or Numerics()
        self.device = check_device(self.numerics)
        self.dtype = COMPUTE_DTYPE[self.numerics.precision]
        model = initial_model(task).to(self.device, self.dtype)
        optimizer = task.optimizer(model.parameters(), task.schedule.learning_rate(0))
        self.exact = self.numerics.precision == "exact"
        self.witnesses: list[Witness] = []
        """In exact arithmetic: what each micro-batch of the last step left behind. The next step may overwrite it."""
        self.capture = False
        """Whether they are to keep the operands of gradient sums too."""
        if self.exact:
            if task.privacy:
                raise UsageError("private steps have no exact twin", hint="train without privacy, or in float32")
            check_supported(model)
            optimizer = exact_optimizer(optimizer)
        self._replay = Replay(model, task.loss) if self.exact and self.device.type == "cuda" else None
        self.scaler = torch.amp.GradScaler(self.device.type, enabled=self.numerics.precision == "float16")
        self.live = Live(model.train(), optimizer, self.scaler)
        self._private = PrivateGradient(model, task.loss, task.privacy, self.numerics) if task.privacy else None

    def __call__(self, state: State, batch: Batch) -> State:
        self.load(state)
        self.run(batch)
        return self.state()

    def load(self, state: State) -> None:
        """Makes the live model equal to `state`."""
        self.live.load(state)

    def state(self) -> State:
        """A copy of the live State."""
        return self.live.state()

    def run(self, batch: Batch, announce: Announce | None = None) -> torch.Tensor:
        """One step from the live State; returns the mean loss. `announce` hears of each micro-batch before it."""
        optimizer = self.live.optimizer
        for group in optimizer.param_groups:
            group["lr"] = self.task.schedule.learning_rate(batch.step)
        optimizer.zero_grad(set_to_none=True)
        total, first = torch.zeros((), device=self.device), 0
        self.witnesses = []
        with applied(self.numerics):
            for micro, rows in enumerate(batch.rows):
                if announce is not None:
                    announce(rows)
                seed_micro_batch(self.task.seed, batch.step, micro)
                carried = {k - first: row for k, row in batch.carried.items() if first <= k < first + len(rows)}
                inputs, labels = self._fetch(rows, carried)
                share = self._backward(inputs, labels, batch, micro)
                total, first = total + share, first + len(rows)
            for witness in self.witnesses:
                witness.check()
            if self._private is not None:
                self._private.add_noise(self.task.seed, batch.step, batch.size)
            self.scaler.step(optimizer)
            self.scaler.update()
        return total

    def _backward(self, inputs: torch.Tensor, labels: torch.Tensor, batch: Batch, micro: int) -> torch.Tensor:
        """Adds a micro-batch to the gradients; returns its share of the batch's mean loss."""
        if self._private is not None:
            return self._private.add(inputs, labels, batch.size)
        if self.exact:
            return self._exact_backward(inputs, labels, batch, micro)
        with autocast(self.numerics):
            loss = self.task.loss(self.live.model(inputs), labels)
        # Equal weight per example: the mean over the batch, whatever the micro-batches.
        share = loss if len(inputs) == batch.size else loss * (len(inputs) / batch.size)
        torch.autograd.backward(self.scaler.scale(share))
        return share.detach()

    def _exact_backward(self, inputs: torch.Tensor, labels: torch.Tensor, batch: Batch, micro: int) -> torch.Tensor:
        def passes(inputs: torch.Tensor, labels: torch.Tensor, witness: Witness) -> torch.Tensor:
            with arithmetic(witness):
                loss = self.task.loss(self.live.model(inputs), labels)
            share = loss if len(inputs) == batch.size else loss * (len(inputs) / batch.size)
            torch.autograd.backward(share)
            return share.detach()

        witness = Witness(derive(self.task.seed, "step", batch.step, micro), capture=self.capture)
        self.witnesses.append(witness)
        if self._replay is None or self.capture or len(batch.rows) > 1:
            return passes(inputs, labels, witness)
        return self._replay(passes, inputs, labels, witness)

    def leaf(self, step: int) -> bytes:
        """In exact arithmetic: the digest of the step that was run last."""
        return self.begin_leaf(step).result()

    def begin_leaf(self, step: int) -> PendingLeaf:
        """The same, of which the hashing may go on while the next step runs."""
        if not self.exact:
            raise UsageError("only exact arithmetic has a digest per step", hint='use precision="exact"')
        return begin_leaf(step, self.witnesses, self.live.tensors())

    def _fetch(self, rows: Sequence[int], carried: Mapping[int, bytes]) -> tuple[torch.Tensor, torch.Tensor]:
        if not self.exact or self.device.type == "cpu":
            return fetch(self.task.dataset, rows, self.device, self.dtype, carried)
        # Exact inputs are normalised on the CPU: a GPU divides by a number as it multiplies by its reciprocal.
        # By one thread, since the others may be hashing the last step's leaf, and a team waits for its slowest.
        with one_thread():
            inputs, labels = fetch(self.task.dataset, rows, torch.device("cpu"), self.dtype, carried)
        return inputs.to(self.device), labels.to(self.device)


def fetch(
    dataset: Dataset,
    rows: Sequence[int],
    device: torch.device,
    dtype: torch.dtype,
    carried: Mapping[int, bytes] | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """A micro-batch as the model reads it: inputs normalised, both on the device."""
    inputs, labels = dataset.fetch(rows, carried)
    return dataset.prepare(inputs.to(device), dtype), labels.to(device)

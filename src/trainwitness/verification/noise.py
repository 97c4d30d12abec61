"""Benign noise: the same step computed in other ways that an honest machine might have used."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from trainwitness.core.batch import Batch
from trainwitness.core.errors import UsageError
from trainwitness.core.numerics import Numerics
from trainwitness.core.seeds import derive, permutation
from trainwitness.core.state import State
from trainwitness.tasks.task import Task
from trainwitness.training.stepper import Stepper
from trainwitness.verification.cast import cast

SOURCES: dict[str, str] = {
    "repetition": "the same again",
    "order": "the examples of each batch in another order",
    "jitter": "inputs changed in their last bits: what follows is rounded otherwise, as by other kernels",
    "threads": "another number of CPU threads",
    "deterministic": "deterministic algorithms switched on or off",
    "onednn": "oneDNN kernels switched on or off",
    "memory-format": "channels-last memory format",
    "autotune": "cuDNN auto-tuning switched on or off",
    "tf32": "TF32 matrix products and convolutions switched on or off",
    "device": "the CPU instead of this device",
    "rounding": "a finer precision inside the step: how far rounding goes, and so another machine's may",
}
"""Sources of benign noise, and what each one varies."""

NOT_HARDWARE = frozenset({"tf32"})
"""Sources that are other arithmetic rather than the same arithmetic elsewhere; a trace says whether it used it."""


JITTER = 8
"""Relative change of inputs, in units of their last place. As often as other kernels do, it makes a rectifier or a
maximum choose otherwise where two values nearly tie; such a step's gradient jumps, by far more than rounding."""


@dataclass(frozen=True)
class Variation:
    """One way to compute a step: under which Numerics, in which order, and on what share of the sampled steps."""

    source: str
    numerics: Numerics
    order: int | None = None
    """Seed of the permutation of each micro-batch's rows."""
    jitter: int | None = None
    """Seed of relative changes of the inputs by up to `JITTER`."""
    channels_last: bool = False
    share: float = 1.0
    """Slow variations are measured on the first steps of each stage only."""


def variations(task: Task, numerics: Numerics, repeats: int, only: str | None = None) -> Iterator[list[Variation]]:
    """For every stage, `repeats` variations: each source once, the rest other orders; or `only` one source."""
    single = [variation for variation in _single(task, numerics) if only in (None, variation.source)]
    if not single:
        raise UsageError(f"noise source {only!r} does not exist here", hint=f"sources: {', '.join(SOURCES)}")
    fillers = single if only else [variation for variation in single if variation.source == "order"]
    for stage in itertools.count():
        turn = stage % len(single)
        chosen = (single[turn:] + single[:turn])[:repeats]
        for number in range(repeats - len(chosen)):
            chosen.append(_renewed(fillers[number % len(fillers)], derive(task.seed, "noise", stage, number)))
        yield chosen


def _renewed(variation: Variation, seed: int) -> Variation:
    """The same with other random numbers, on all of the sampled steps."""
    return replace(
        variation,
        order=None if variation.order is None else seed,
        jitter=None if variation.jitter is None else seed,
        share=1.0,
    )


def _single(task: Task, numerics: Numerics) -> Iterator[Variation]:
    cuda = torch.device(numerics.device).type == "cuda"

    def changed(source: str, share: float = 1.0, **values: object) -> Variation:
        return Variation(source, numerics.model_copy(update=values), share=share)

    yield Variation("order", numerics, order=derive(task.seed, "noise"))
    if _reads_reals(task):
        yield Variation("jitter", numerics, jitter=derive(task.seed, "noise"))
    yield changed("repetition")
    if numerics.precision == "float32":
        yield changed("rounding", share=0.1, precision="float64")
    elif numerics.precision != "float64":
        yield changed("rounding", precision="float32")
    yield changed("deterministic", deterministic=not numerics.deterministic)
    if cuda:
        yield changed("autotune", autotune=not numerics.autotune)
        if numerics.precision == "float32":
            yield changed("tf32", tf32=not numerics.tf32, tf32_convolution=not numerics.tf32_convolution)
        yield changed("device", share=0.1, device="cpu", threads=None)
    else:
        threads = numerics.threads or torch.get_num_threads()
        yield changed("threads", share=0.5, threads=1 if threads > 1 else 2)
        yield changed("onednn", share=0.1, onednn=not numerics.onednn)
    if _has_images(task):
        yield replace(changed("memory-format"), channels_last=True)


def _reads_reals(task: Task) -> bool:
    """Whether the model reads real numbers (pixels / 255), which have last bits, rather than token numbers."""
    one, _ = task.dataset.fetch([0])
    return task.dataset.prepare(one, torch.float32).is_floating_point()


def jittered(task: Task, seed: int, ulps: Callable[[], float]) -> Task:
    """The task with inputs that differ by up to so many units in their last place."""
    plain, generator = task.dataset.prepare, torch.Generator().manual_seed(seed)

    def prepare(inputs: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        values = plain(inputs, dtype)
        change = 1 + ulps() * torch.finfo(values.dtype).eps * (
            2 * torch.rand(values.shape, generator=generator, dtype=torch.float64) - 1
        )
        return (values.double() * change.to(values.device)).to(values.dtype)

    return replace(task, dataset=replace(task.dataset, prepare=prepare))


def _has_images(task: Task) -> bool:
    with torch.device("meta"):
        return any(parameter.dim() == 4 for parameter in task.model().parameters())


class Probe:
    """A run beside the run: takes the parameters of each step, and keeps everything else of its own."""

    def __init__(self, task: Task, variation: Variation) -> None:
        self.variation = variation
        self.ulps: float = JITTER
        own = task if variation.jitter is None else jittered(task, variation.jitter, lambda: self.ulps)
        self._stepper = Stepper(own, variation.numerics)
        if variation.channels_last:
            self._stepper.live.model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def can_be(self, variation: Variation) -> bool:
        """Whether another variation needs the same model under the same Numerics."""
        mine = self.variation
        return (mine.numerics, mine.channels_last, mine.jitter is None) == (
            variation.numerics, variation.channels_last, variation.jitter is None,
        )  # fmt: skip

    def start(self, state: State) -> None:
        """Begins where the run is."""
        own = cast(state, self._stepper.dtype)
        if self._stepper.live.scaler is None:
            own = State({n: t for n, t in own.tensors.items() if not n.startswith("scaler/")})
        self._stepper.load(own)

    def follow(self, before: State, batches: Sequence[Batch]) -> State:
        """Computes the run's next steps its own way; the result is overwritten by the next call."""
        self._stepper.live.load_parameters(cast(before, self._stepper.dtype))
        for batch in batches:
            self._stepper.run(self._reordered(batch))
        return self._stepper.live.view()

    def _reordered(self, batch: Batch) -> Batch:
        if self.variation.order is None:
            return batch
        carried: dict[int, bytes] = {}
        rows, first = [], 0
        for number, micro in enumerate(batch.rows):
            order = permutation(derive(self.variation.order, batch.step, number), len(micro))
            rows.append(tuple(np.asarray(micro)[order].tolist()))
            carried |= {
                first + k: batch.carried[first + int(j)]
                for k, j in enumerate(order)
                if first + int(j) in batch.carried
            }
            first += len(micro)
        return replace(batch, rows=tuple(rows), carried=carried)


class Probes:
    """Probes for one list of variations after the other; models are built once and used again."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._pool: list[Probe] = []
        self.unavailable: dict[str, str] = {}
        """Why some sources cannot be had here."""

    def make(self, wanted: Sequence[Variation]) -> list[Probe]:
        """A probe for each variation that this machine can compute."""
        free, self._pool = self._pool, []
        for variation in wanted:
            match = next((probe for probe in free if probe.can_be(variation)), None)
            try:
                probe = match or Probe(self._task, variation)
            except UsageError as error:
                self.unavailable[variation.source] = str(error)
                continue
            if match:
                free.remove(match)
                probe.variation = variation
            self._pool.append(probe)
        return self._pool

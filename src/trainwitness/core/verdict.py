"""Threshold and Verdict: what an error is judged by, and what a verification established."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from trainwitness.core.numerics import Precision

Answer = Literal["ACCEPT", "REJECT", "INCONCLUSIVE"]
Standing = Literal["established", "refuted", "unknown"]
PropertyName = Literal[
    "reproduced",
    "exact",
    "initialised",
    "scheduled",
    "data_matches",
    "data_committed",
    "model_bound",
    "forgery_margin",
]
Grade = Literal["committed", "before_nonce", "time_stamped"]

PROPERTIES: dict[PropertyName, str] = {
    "reproduced": "every step, computed again from its stored State and batch, gives the next State",
    "exact": "and gives it bit for bit",
    "initialised": "the run began from parameters that its seed decides, with an empty optimiser",
    "scheduled": "learning rates and the order of rows are the task's, not chosen afterwards",
    "data_matches": "the rows are those of the verifier's own copy of the data set",
    "data_committed": "the rows were fixed by a commitment; its grades say when",
    "model_bound": "the model file given is the final State",
    "forgery_margin": "no attack we know comes near the threshold with other data",
}


class FalseRejection(BaseModel):
    """How often a threshold rejects the honest.

    `stated`: the share of honest traces of `steps` steps it was made for, if it was. `held_out` honest errors were
    judged by thresholds fitted without their stage of training; `held_out_above` of them were above, jumps included.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    stated: float | None
    steps: int
    held_out: int
    held_out_above: int


class Threshold(BaseModel):
    """The largest error that counts as benign, and where that number comes from.

    `value` bounds the l2 error of the parameters in one step. Buffers and optimiser state live on other scales (a
    momentum error is about 1/lr of a parameter error): `buffers` and `optimizer` bound their errors as shares of
    their own size; None leaves it to the precision (see `Judge`). A threshold of 0 allows nothing anywhere.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    value: float = Field(ge=0, allow_inf_nan=False)
    origin: str = "fixed"
    buffers: float | None = Field(default=None, ge=0, le=1)
    optimizer: float | None = Field(default=None, ge=0, le=1)
    adaptive: bool = False
    """Each step has its own limit (`StepError.limit`), never above `value`."""
    jumps: float | None = Field(default=None, ge=0)
    """Up to this error a step above its limit passes if near ties explain it (`verification/policies/jumps.py`)."""
    false_rejection: FalseRejection | None = None


MAX_SHARE = 0.05
"""An error of more than this share of the update, of a buffer or of the optimiser's state is never rounding."""
_SHARES: dict[Precision, float] = {
    "float64": 1e-3,
    "float32": 1e-3,
    "exact": 0.0,
    "float16": MAX_SHARE,
    "bfloat16": MAX_SHARE,
}
"""Shares allowed where no calibration says better. Honest momentum differs by 1e-6 (float32) to a few percent."""


class Judge:
    """Says which errors a Threshold tolerates, in traces of one precision recomputed in another."""

    def __init__(self, threshold: Threshold | None, *precisions: Precision) -> None:
        self.threshold = threshold
        if threshold is not None:
            share = max(_SHARES[precision] for precision in precisions) if threshold.value else 0.0
            self._buffers = share if threshold.buffers is None else threshold.buffers
            # The trace's optimiser state is compared and never used, so jumps of gradients in it need no explaining.
            self._optimizer = max(share, threshold.optimizer or 0.0)

    def __call__(self, error: StepError) -> bool:
        if self.threshold is None or error.problems:
            return error.exact
        l2 = error.l2 if error.rest_of_jump is None else error.rest_of_jump
        return l2 <= self.limit(error) and error.buffers <= self._buffers and error.optimizer <= self._optimizer

    def limit(self, error: StepError) -> float:
        """What l2 is judged by in one step."""
        value = 0.0 if self.threshold is None else self.threshold.value
        return value if error.limit is None else min(error.limit, value)


class Property(BaseModel):
    """A named claim, whether it holds, and why."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    standing: Standing
    why: str
    grades: list[Grade] = Field(default_factory=list)
    """Of `data_committed`: the rows are the committed ones; the seeds come from a later nonce; a TSA saw the root."""


class StepError(BaseModel):
    """What recomputing a step gave. Parameters: l2 and largest difference, and l2 over the size of the update.

    With `checkpoint_every` K > 1 these are the errors of K steps together, under the number of the last.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    step: int
    l2: float
    linf: float
    relative: float
    buffers: float = 0.0
    """Error of the buffers (running means, ...), each over its size; the largest."""
    optimizer: float = 0.0
    """Error of the optimiser's tensors (momentum, ...), each kind as one vector over its size; the largest."""
    rounding: float | None = None
    """In float64: the part of l2 that rounding the result to the trace's precision explains."""
    rest: float | None = None
    problems: list[str] = Field(default_factory=list)
    """What is wrong with this step besides its errors: rows outside the data set, counters that do not count."""
    limit: float | None = None
    """This step's own limit on l2, where the threshold is adaptive."""
    rest_of_jump: float | None = None
    """Where near ties explain the step: the part of l2 that they do not."""
    exact: bool = False
    """The same tensors with the same bits."""


class Verdict(BaseModel):
    """The answer, with everything it rests on."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    verdict: Answer
    threshold: Threshold | None
    max_l2: float
    reasons: list[str]
    properties: dict[PropertyName, Property]
    steps: list[StepError]
    sealed: bool
    step_root: str | None
    recomputed_on: str
    task: dict[str, Any] | None = None
    """Name and options of the task that was recomputed, where it has a name."""
    sample: dict[str, Any] | None = None
    """Where only a sample was recomputed: which spans, and how likely that misses what was looked for."""

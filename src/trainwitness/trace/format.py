"""Trace formats: names, limits and the records written as JSON. docs/trace-format.md is their specification."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import Field, FiniteFloat, model_validator

from trainwitness.commitments.commitment import DataFacts as DataFacts
from trainwitness.core.environment import Environment
from trainwitness.core.files import TEMPORARY as TEMPORARY
from trainwitness.core.numerics import Numerics
from trainwitness.core.records import Digest, Record
from trainwitness.core.records import dump as dump
from trainwitness.core.records import load as load
from trainwitness.core.records import parse as parse
from trainwitness.tasks.task import TaskSpec

FORMAT: Literal["trainwitness/trace/1"] = "trainwitness/trace/1"
EXACT_FORMAT: Literal["trainwitness/trace/2"] = "trainwitness/trace/2"
"""Digests of steps in place of States: traces of exact arithmetic."""
MANIFEST, SEAL, LOCK = "manifest.json", "seal.json", "LOCK"
CHUNK_STEPS = 128
EXACT_CHECKPOINT_EVERY = 4096
LEAF_BYTES = 32

MAX_JSON_BYTES = 1 << 26
MAX_STATE_BYTES = 1 << 36
MAX_TENSORS = 1 << 20

NO_DIGEST = "0" * 64
Setting = bool | int | FiniteFloat | str | None | list[bool | int | FiniteFloat | str | None]
Table = list[tuple[str, str, list[int]]]

_CHUNK = re.compile(r"chunk-(\d{6})\.twc")
_SESSION = re.compile(r"session-(\d{3})\.json")


def chunk_name(index: int) -> str:
    """`chunk-000000.twc`."""
    return f"chunk-{index:06d}.twc"


def session_name(index: int) -> str:
    """`session-001.json`: the first session's facts are in the manifest."""
    return f"session-{index:03d}.json"


def known_name(name: str) -> bool:
    """Whether a trace may hold a file of this name; anything else in the folder is refused."""
    return name in (MANIFEST, SEAL) or bool(_CHUNK.fullmatch(name) or _SESSION.fullmatch(name))


class Manifest(Record):
    """What is fixed before the first step."""

    format: Literal["trainwitness/trace/1", "trainwitness/trace/2"] = FORMAT
    task: TaskSpec | None
    model: str
    parameters: int
    optimizer: str
    numerics: Numerics
    environment: Environment
    seed: int
    """Every seed of the run derives from this one, by name."""
    initialisation: Literal["portable", "torch", "unstated"]
    order: str
    """The rule that gave the order of rows; `loader` for a user's own."""
    data: DataFacts
    checkpoint_every: Annotated[int, Field(ge=1)]
    chunk_steps: Annotated[int, Field(ge=1)]

    @model_validator(mode="after")
    def _exact_has_its_own_format(self) -> Manifest:
        if (self.numerics.precision == "exact") != (self.format == EXACT_FORMAT):
            raise ValueError(f"format {self.format} does not hold traces of precision {self.numerics.precision}")
        return self


class Session(Record):
    """A later sitting that went on with an interrupted recording."""

    trace: Digest
    first_step: int
    environment: Environment


class Resume(Record):
    """What a recorder needs, besides the State, to go on after a step."""

    epoch: int
    """The epoch to go on with."""
    batches: int | None = None
    """Where a step's micro-batches come from two epochs: how many of the last ones are of its own epoch."""
    groups: list[dict[str, Setting]]
    scheduler: dict[str, Any] | None = None


class StepRecord(Record):
    """One step. Its JSON bytes, as stored, are the step's leaf."""

    step: Annotated[int, Field(ge=0)]
    epoch: Annotated[int, Field(ge=0)]
    rows: list[list[Annotated[int, Field(ge=0)]]]
    groups: list[dict[str, Setting]]
    """The optimiser's settings in this step (learning rate, ...), per parameter group."""
    state: Digest | None
    """Digest of the State after the step; None where it is not a checkpoint."""
    carried: dict[str, str] = Field(default_factory=dict)
    """Position in the batch to the base64 of a replaced row."""
    tensors: Table | None = None
    """The new table of tensors, where it differs from the State before."""
    predict: FiniteFloat | None = None
    """The learning rate by which parameters were predicted from momentum before taking differences."""
    resume: Resume | None = None

    def to_bytes(self) -> bytes:
        """The leaf."""
        return self.model_dump_json(exclude_defaults=True).encode()


class ChunkHeader(Record):
    """What a chunk says of itself."""

    trace: Digest
    """SHA-256 in the manifest."""
    index: Annotated[int, Field(ge=0)]
    previous: Digest
    """Digest of the chunk before; zeros for the first."""
    first_step: Annotated[int, Field(ge=0)]
    state: Digest
    """Digest of the keyframe State, with which the first step starts."""
    tensors: Table


class ExactChunkHeader(Record):
    """What a chunk of an exact trace says of itself."""

    trace: Digest
    index: Annotated[int, Field(ge=0)]
    previous: Digest
    first_step: Annotated[int, Field(ge=0)]
    state: Digest
    """Digest of the State before the first step."""
    tensors: Table | None
    """The table of that State where the chunk holds it; None where it is to be computed."""


class ExactBatch(Record):
    """The rows of one step of an exact trace, where they are written down."""

    epoch: Annotated[int, Field(ge=0)]
    rows: list[list[Annotated[int, Field(ge=0)]]]
    carried: dict[str, str] = Field(default_factory=dict)


class ExactBatches(Record):
    """The rows of every step of a chunk."""

    steps: list[ExactBatch]


class Seal(Record):
    """Written last: what the finished trace consists of."""

    trace: Digest
    steps: Annotated[int, Field(ge=1)]
    chunks: list[Digest]
    sessions: list[Digest]
    step_root: Digest
    """RFC 6962 root over the initial leaf and every step's leaf."""
    data_root: Digest
    final_state: Digest


def initial_leaf(state: str) -> bytes:
    """Leaf 0: the digest of the initial State."""
    return f'{{"state":"{state}"}}'.encode()

"""Trace formats: names, limits and the records written as JSON. docs/trace-format.md is their specification."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, ValidationError, model_validator

from trainwitness.core.environment import Environment
from trainwitness.core.errors import TraceDamaged
from trainwitness.core.numerics import Numerics
from trainwitness.tasks.task import TaskSpec

FORMAT: Literal["trainwitness/trace/1"] = "trainwitness/trace/1"
EXACT_FORMAT: Literal["trainwitness/trace/2"] = "trainwitness/trace/2"
"""Digests of steps in place of States: traces of exact arithmetic."""
MANIFEST, SEAL, LOCK = "manifest.json", "seal.json", "LOCK"
TEMPORARY = ".tmp"
CHUNK_STEPS = 128
EXACT_CHECKPOINT_EVERY = 4096
LEAF_BYTES = 32

MAX_JSON_BYTES = 1 << 26
MAX_STATE_BYTES = 1 << 36
MAX_TENSORS = 1 << 20

Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
NO_DIGEST = "0" * 64
Setting = bool | int | FiniteFloat | str | None | list[bool | int | FiniteFloat | str | None]
Table = list[tuple[str, str, list[int]]]

_CHUNK = re.compile(r"chunk-(\d{6})\.twc")
_SESSION = re.compile(r"session-(\d{3})\.json")
_TAIL = re.compile(rb',"sha256":"([0-9a-f]{64})"\}\n')


def chunk_name(index: int) -> str:
    """`chunk-000000.twc`."""
    return f"chunk-{index:06d}.twc"


def session_name(index: int) -> str:
    """`session-001.json`: the first session's facts are in the manifest."""
    return f"session-{index:03d}.json"


def known_name(name: str) -> bool:
    """Whether a trace may hold a file of this name; anything else in the folder is refused."""
    return name in (MANIFEST, SEAL) or bool(_CHUNK.fullmatch(name) or _SESSION.fullmatch(name))


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class DataFacts(_Record):
    """The data set the rows come from: an RFC 6962 root over the canonical bytes of every row."""

    name: str
    rows: Annotated[int, Field(ge=0)]
    row_schema: str
    root: Digest


class Manifest(_Record):
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


class Session(_Record):
    """A later sitting that went on with an interrupted recording."""

    trace: Digest
    first_step: int
    environment: Environment


class Resume(_Record):
    """What a recorder needs, besides the State, to go on after a step."""

    epoch: int
    """The epoch to go on with."""
    batches: int | None = None
    """Where a step's micro-batches come from two epochs: how many of the last ones are of its own epoch."""
    groups: list[dict[str, Setting]]
    scheduler: dict[str, Any] | None = None


class StepRecord(_Record):
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


class ChunkHeader(_Record):
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


class ExactChunkHeader(_Record):
    """What a chunk of an exact trace says of itself."""

    trace: Digest
    index: Annotated[int, Field(ge=0)]
    previous: Digest
    first_step: Annotated[int, Field(ge=0)]
    state: Digest
    """Digest of the State before the first step."""
    tensors: Table | None
    """The table of that State where the chunk holds it; None where it is to be computed."""


class ExactBatch(_Record):
    """The rows of one step of an exact trace, where they are written down."""

    epoch: Annotated[int, Field(ge=0)]
    rows: list[list[Annotated[int, Field(ge=0)]]]
    carried: dict[str, str] = Field(default_factory=dict)


class ExactBatches(_Record):
    """The rows of every step of a chunk."""

    steps: list[ExactBatch]


class Seal(_Record):
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


R = TypeVar("R", bound=_Record)


def dump(record: _Record) -> tuple[bytes, str]:
    """A record as a JSON file that ends in its own digest, and that digest.

    The digest is SHA-256 over the file's bytes before `,"sha256":"`.
    """
    body = record.model_dump_json().encode()[:-1]
    digest = hashlib.sha256(body).hexdigest()
    return body + f',"sha256":"{digest}"}}\n'.encode(), digest


def load(kind: type[R], content: bytes, name: str) -> tuple[R, str]:
    """Reads what `dump` wrote: the record and its digest."""
    tail = _TAIL.fullmatch(content[-78:])
    if tail is None:
        raise TraceDamaged(f"{name}: does not end in its digest; it is truncated or not of a trace")
    body, digest = content[:-78], tail[1].decode()
    if hashlib.sha256(body).hexdigest() != digest:
        raise TraceDamaged(f"{name}: its bytes do not have the digest it states: it was altered")
    return parse(kind, body + b"}", name), digest


class _DuplicateKey(Exception):
    pass


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Two readers may disagree on an object that has a key twice, so none is accepted."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise _DuplicateKey(f"an object has a key twice among {sorted(found)}")
    return found


def parse(kind: type[R], text: bytes, where: str) -> R:
    """A record from its JSON."""
    try:
        json.loads(text, object_pairs_hook=_no_duplicates)
        return kind.model_validate_json(text)
    except (_DuplicateKey, RecursionError, UnicodeDecodeError) as error:
        raise TraceDamaged(f"{where}: {error}") from error
    except ValueError as error:
        if not isinstance(error, ValidationError):
            raise TraceDamaged(f"{where}: not JSON: {error}") from error
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "JSON"
        raise TraceDamaged(f"{where}: {place}: {first['msg']}") from error

"""Records: frozen JSON objects read from strangers. Unknown members, double members and odd numbers are refused."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from trainwitness.core.errors import TraceDamaged, TrainwitnessError

Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]

_TAIL = re.compile(rb',"sha256":"([0-9a-f]{64})"\}\n')


class Record(BaseModel):
    """Base of everything written as JSON under a digest or a signature."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


R = TypeVar("R", bound=BaseModel)
Damaged = type[TrainwitnessError]


def dump(record: Record) -> tuple[bytes, str]:
    """A record as a JSON file that ends in its own digest, and that digest.

    The digest is SHA-256 over the file's bytes before `,"sha256":"`.
    """
    body = record.model_dump_json().encode()[:-1]
    digest = hashlib.sha256(body).hexdigest()
    return body + f',"sha256":"{digest}"}}\n'.encode(), digest


def load(kind: type[R], content: bytes, name: str, damaged: Damaged = TraceDamaged) -> tuple[R, str]:
    """Reads what `dump` wrote: the record and its digest."""
    tail = _TAIL.fullmatch(content[-78:])
    if tail is None:
        raise damaged(f"{name}: does not end in its digest; it is truncated or something else")
    body, digest = content[:-78], tail[1].decode()
    if hashlib.sha256(body).hexdigest() != digest:
        raise damaged(f"{name}: its bytes do not have the digest it states: it was altered")
    return parse(kind, body + b"}", name, damaged), digest


class _DuplicateKey(Exception):
    pass


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Two readers may disagree on an object that has a key twice, so none is accepted."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise _DuplicateKey(f"an object has a key twice among {sorted(found)}")
    return found


def parse(kind: type[R], text: bytes, where: str, damaged: Damaged = TraceDamaged) -> R:
    """A record from its JSON."""
    try:
        json.loads(text, object_pairs_hook=_no_duplicates)
        return kind.model_validate_json(text)
    except (_DuplicateKey, RecursionError, UnicodeDecodeError) as error:
        raise damaged(f"{where}: {error}") from error
    except ValueError as error:
        if not isinstance(error, ValidationError):
            raise damaged(f"{where}: not JSON: {error}") from error
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "JSON"
        raise damaged(f"{where}: {place}: {first['msg']}") from error

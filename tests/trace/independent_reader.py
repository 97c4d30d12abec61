"""A second reader of trace folders, written from docs/trace-format.md alone, to check that document.

It shares no code with the package: what it computes rests on the document, the standard library, numpy and zstandard.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import zstandard

Json = dict[str, Any]
Table = list[tuple[str, str, tuple[int, ...]]]
State = dict[str, tuple[str, tuple[int, ...], bytes]]

WIDTHS = {"bool": 1, "uint8": 1, "int8": 1, "int16": 2, "float16": 2, "bfloat16": 2}
WIDTHS |= {"int32": 4, "float32": 4, "int64": 8, "float64": 8}
BLOCK_WORDS = 131_072
NAMES = re.compile(r"manifest\.json|seal\.json|chunk-[0-9]{6}\.twc|session-[0-9]{3}\.json")
MANIFEST = {"format", "task", "model", "parameters", "optimizer", "numerics", "environment", "seed"}
MANIFEST |= {"initialisation", "order", "data", "checkpoint_every", "chunk_steps"}
NUMERICS = {"precision", "device", "threads", "deterministic", "autotune", "tf32", "tf32_convolution", "onednn"}
DATA = {"name", "rows", "row_schema", "root"}
SESSION = {"trace", "first_step", "environment"}
SEAL = {"trace", "steps", "chunks", "sessions", "step_root", "data_root", "final_state"}
HEADER = {"trace", "index", "previous", "first_step", "state", "tensors"}
STEP = {"step", "epoch", "rows", "groups", "state"}
STEP_OPTIONAL = frozenset({"predict", "tensors", "carried", "resume"})


@dataclass
class IndependentTrace:
    """What was read. A later chunk's keyframe repeats the State before it, so `state_digests` has it once."""

    manifest: Json
    sealed: bool
    steps: list[Json] = field(default_factory=list)
    state_digests: list[str] = field(default_factory=list)
    step_root: str = ""
    data_root: str = ""


def read_trace(folder: Path) -> IndependentTrace:
    """Read and check a trace folder; ValueError at the first thing that is not as the document says."""
    try:
        return _read(folder)
    except (LookupError, TypeError, AttributeError, OverflowError, zstandard.ZstdError) as error:
        raise ValueError(f"malformed: {error}") from error


def canonical_row(fields: Sequence[np.ndarray[Any, Any]]) -> bytes:
    _require(all(array.dtype.name in WIDTHS for array in fields), "a field of no known dtype")
    little = [array.astype(array.dtype.newbyteorder("<")) for array in fields]
    arrays = [_canonical_array(array.dtype.name, array.shape, array.tobytes()) for array in little]
    return len(arrays).to_bytes(4, "little") + b"".join(arrays)


def row_digest_root(rows: list[bytes]) -> str:
    """The data root over canonical rows."""
    return _tree_head(rows).hex()


def _read(folder: Path) -> IndependentTrace:
    chunks, sessions, sealed = _list_names(folder)
    manifest, trace_id = _read_json(folder / "manifest.json", MANIFEST)
    _require(manifest["format"] == "trainwitness/trace/1", "another format")
    _require(manifest["numerics"].keys() <= NUMERICS and manifest["data"].keys() == DATA, "unknown members")
    session_files = [_read_json(folder / name, SESSION) for name in sessions]
    seal = _read_json(folder / "seal.json", SEAL)[0] if sealed else None
    for body in [*(session for session, _ in session_files), *([seal] if seal else [])]:
        _require(body["trace"] == trace_id, "a session or the seal is of another trace")

    trace = IndependentTrace(manifest, sealed, data_root=manifest["data"]["root"])
    leaves: list[bytes] = []
    digests: list[str] = []
    for index, name in enumerate(chunks):
        raw = (folder / name).read_bytes()
        _require(hashlib.sha256(raw[:-32]).digest() == raw[-32:], f"{name}: wrong digest")
        place = {"trace": trace_id, "index": index, "previous": ["0" * 64, *digests][-1]}
        _add_chunk(trace, leaves, raw[:-32], {**place, "first_step": len(trace.steps)})
        digests.append(raw[-32:].hex())
    trace.step_root = _tree_head(leaves).hex()
    if seal:
        _require(seal["chunks"] == digests, "the seal lists other chunks")
        _require(seal["sessions"] == [digest for _, digest in session_files], "the seal lists other sessions")
        _require(seal["step_root"] == trace.step_root, "the step root is not the seal's")
        _require(seal["final_state"] == trace.state_digests[-1], "the final State is not the seal's")
        _require(seal["data_root"] == trace.data_root, "the data root is not the seal's")
        _require(seal["steps"] == len(trace.steps), "the number of steps is not the seal's")
    return trace


def _list_names(folder: Path) -> tuple[list[str], list[str], bool]:
    """The chunks and sessions in order, and whether there is a seal."""
    names = sorted(p.name for p in folder.iterdir() if p.name != "LOCK" and not p.name.endswith(".tmp"))
    for name in names:
        _require(NAMES.fullmatch(name) is not None and (folder / name).is_file(), f"{name!r} is not part of a trace")
    _require("manifest.json" in names, "no manifest")
    chunks = [name for name in names if name.startswith("chunk-")]
    sessions = [name for name in names if name.startswith("session-")]
    _require(chunks == [f"chunk-{i:06}.twc" for i in range(len(chunks))], "a gap in the chunks")
    _require(sessions == [f"session-{i + 1:03}.json" for i in range(len(sessions))], "a gap in the sessions")
    return chunks, sessions, "seal.json" in names


def _read_json(path: Path, members: set[str]) -> tuple[Json, str]:
    """The object without its digest, and the digest."""
    raw = path.read_bytes()
    digest = hashlib.sha256(raw[:-78]).hexdigest()
    _require(raw[-78:] == b',"sha256":"%s"}\n' % digest.encode(), f"{path.name}: wrong digest")
    return _parse(raw[:-78] + b"}", members), digest


def _parse(raw: bytes, members: set[str], optional: frozenset[str] = frozenset()) -> Json:
    parsed: Json = json.loads(raw.decode())
    _require(members <= parsed.keys() <= members | optional, f"members {sorted(parsed)} are not the expected ones")
    return parsed


def _records(chunk: bytes) -> Iterator[tuple[bytes, bytes]]:
    _require(chunk[:8] == b"TWCHUNK\x01", "not a chunk")
    at = 8
    while at < len(chunk):
        end = at + 9 + int.from_bytes(chunk[at + 1 : at + 9], "little")
        _require(end <= len(chunk), "a record is cut short")
        yield chunk[at : at + 1], chunk[at + 9 : end]
        at = end


def _add_chunk(trace: IndependentTrace, leaves: list[bytes], chunk: bytes, expected: Json) -> None:
    """Decode one chunk and append its steps, States and leaves."""
    kinds, payloads = zip(*_records(chunk), strict=True)
    _require(re.fullmatch(rb"HKS+", b"".join(kinds)) is not None, "records out of order")
    header = _parse(payloads[0], HEADER)
    _require({key: header[key] for key in expected} == expected, "a chunk does not continue the one before")
    table = _read_table(header["tensors"])
    state = _decode_state(payloads[1], table, {}, header["state"])
    if not leaves:
        trace.state_digests.append(header["state"])
        leaves.append(b'{"state":"%s"}' % header["state"].encode())
    _require(header["state"] == trace.state_digests[-1], "a keyframe is not the State before")
    for payload in payloads[2:]:
        end = 4 + int.from_bytes(payload[:4], "little")
        leaf, encoded = _decompress(payload[4:end]), payload[end:]
        step = _parse(leaf, STEP, STEP_OPTIONAL)
        _require(step["step"] == len(trace.steps), "a gap in the steps")
        if step["state"] is None:
            _require(not encoded and "tensors" not in step, "a State that the step does not announce")
        else:
            table = _read_table(step["tensors"]) if "tensors" in step else table
            state = _decode_state(encoded, table, state, step["state"], step.get("predict"))
            trace.state_digests.append(step["state"])
        trace.steps.append(step)
        leaves.append(leaf)
    _require(trace.steps[-1]["state"] is not None, "a chunk ends without a State")


def _decompress(frame: bytes, expected: int | None = None) -> bytes:
    """Decompress exactly one frame, of the `expected` content size if given."""
    size = zstandard.frame_content_size(frame)
    _require(0 <= size < 65_536 * len(frame) and expected in (None, size), "a frame's content size is wrong")
    return zstandard.ZstdDecompressor().decompress(frame, allow_extra_data=False)


def _read_table(entries: list[Any]) -> Table:
    table = [(name, dtype, tuple(shape)) for name, dtype, shape in entries]
    _require(all(dtype in WIDTHS for _, dtype, _ in table), "an unknown dtype")
    _require(all(type(size) is int and size >= 0 for _, _, shape in table for size in shape), "a malformed shape")
    names = [name.encode() for name, _, _ in table]
    _require(names == sorted(set(names)), "a table is not in order")
    return table


def _decode_state(frame: bytes, table: Table, before: State, digest: str, predict: float | None = None) -> State:
    sizes = {name: WIDTHS[dtype] * math.prod(shape) for name, dtype, shape in table}
    content, at, state = _decompress(frame, sum(sizes.values())), 0, State()
    for width in (8, 4, 2, 1):
        entries = [entry for entry in table if WIDTHS[entry[1]] == width]
        base = b"".join(_base(before, *entry) for entry in entries)
        words = _undo_difference(content[at : at + len(base)], width, base)
        at += len(base)
        for name, dtype, shape in entries:
            state[name], words = (dtype, shape, words[: sizes[name]]), words[sizes[name] :]
    if predict is not None:
        _apply_prediction(state, before, np.float32(predict))
    _require(_state_digest(state) == digest, "a State has a wrong digest")
    return state


def _apply_prediction(state: State, before: State, rate: np.float32) -> None:
    """Parameters with momentum were stored as differences to p - rate * v, not to p."""
    for name, (dtype, shape, elements) in list(state.items()):
        momentum = state.get(name.replace("param/", "optim/", 1) + "/momentum_buffer")
        if name.startswith("param/") and dtype == "float32" and momentum and momentum[:2] == (dtype, shape):
            p, v = (np.frombuffer(raw, "<f4") for raw in (before[name][2], momentum[2]))
            moved = p - rate * v
            reference = np.array(
                [new if abs(new) >= np.float32(1e-20) else old for new, old in zip(moved, p, strict=True)]
            )
            words = np.frombuffer(elements, "<u4") - p.view("<u4") + reference.astype("<f4").view("<u4")
            state[name] = (dtype, shape, words.tobytes())


def _base(before: State, name: str, dtype: str, shape: tuple[int, ...]) -> bytes:
    old = before.get(name)
    return old[2] if old and old[:2] == (dtype, shape) else bytes(WIDTHS[dtype] * math.prod(shape))


def _undo_difference(planes: bytes, width: int, base: bytes) -> bytes:
    """The words whose differences to `base` were zigzagged and cut into byte planes."""
    block = BLOCK_WORDS * width
    parts = [np.frombuffer(planes[at : at + block], np.uint8) for at in range(0, len(planes), block)]
    zigzag = np.frombuffer(b"".join(part.reshape(width, -1).T.tobytes() for part in parts), f"<u{width}")
    one = zigzag.dtype.type(1)
    difference = (zigzag >> one) ^ (~(zigzag & one) + one)
    return bytes((np.frombuffer(base, zigzag.dtype) + difference).astype(zigzag.dtype).tobytes())


def _canonical_array(dtype: str, shape: Sequence[int], elements: bytes) -> bytes:
    sizes = b"".join(size.to_bytes(8, "little") for size in shape)
    return bytes([len(dtype)]) + dtype.encode() + bytes([len(shape)]) + sizes + elements


def _state_digest(state: State) -> str:
    digest = hashlib.sha256(b"trainwitness/state/v1\0")
    for name, array in sorted((name.encode(), array) for name, array in state.items()):
        digest.update(len(name).to_bytes(4, "little") + name + _canonical_array(*array))
    return digest.hexdigest()


def _tree_head(leaves: Sequence[bytes]) -> bytes:
    """RFC 6962, section 2.1."""
    if len(leaves) < 2:
        return hashlib.sha256(b"\0" + leaves[0] if leaves else b"").digest()
    split = 1 << ((len(leaves) - 1).bit_length() - 1)
    return hashlib.sha256(b"\1" + _tree_head(leaves[:split]) + _tree_head(leaves[split:])).digest()


def _require(condition: bool, problem: str) -> None:
    if not condition:
        raise ValueError(problem)

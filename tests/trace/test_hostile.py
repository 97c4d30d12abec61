"""A trace is untrusted input: every altered byte is refused or provably harmless."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import struct
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from trainwitness import Trace, pack
from trainwitness.core.errors import StorageError, TraceDamaged, TrainwitnessError
from trainwitness.trace import format as f
from trainwitness.trace.chunk import MAGIC, ChunkWriter

REFUSED = (TraceDamaged, StorageError)


def write(folder: Path, files: dict[str, bytes]) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return folder


@pytest.mark.parametrize(
    "name", ["manifest.json", "seal.json", "chunk-000000.twc", "chunk-000001.twc", "chunk-000002.twc"]
)
@pytest.mark.parametrize("sealed", [True, False])
def test_every_single_byte_change_is_refused(
    tmp_path: Path, sealed_files: dict[str, bytes], name: str, sealed: bool
) -> None:
    """Exhaustive over positions; each byte is changed once in its lowest bit and once in all bits."""
    files = {n: c for n, c in sealed_files.items() if sealed or n != f.SEAL}
    if name not in files:
        return
    folder = write(tmp_path / "t", files)
    assert Trace.open(folder).check().steps == 7
    for position in range(len(files[name])):
        for mask in (0x01, 0xFF):
            content = bytearray(files[name])
            content[position] ^= mask
            (folder / name).write_bytes(content)
            with pytest.raises(TraceDamaged):
                Trace.open(folder).check()


@pytest.mark.parametrize("sealed", [True, False])
def test_every_truncation_is_refused(tmp_path: Path, sealed_files: dict[str, bytes], sealed: bool) -> None:
    files = {n: c for n, c in sealed_files.items() if sealed or n != f.SEAL}
    folder = write(tmp_path / "t", files)
    for name, content in files.items():
        for length in range(0, len(content), 5):
            (folder / name).write_bytes(content[:length])
            with pytest.raises(TraceDamaged):
                Trace.open(folder).check()
        (folder / name).write_bytes(content)
    assert Trace.open(folder).check().steps == 7


@st.composite
def mutations(draw: st.DrawFn) -> Callable[[dict[str, bytes]], dict[str, bytes]]:
    """Edits of the kind an editor, a copying program or an attacker makes."""
    kind = draw(st.sampled_from(["insert", "delete", "overwrite", "swap", "drop", "append", "rename", "duplicate"]))
    which, other = draw(st.integers(0, 100)), draw(st.integers(0, 100))
    at, data = draw(st.floats(0, 1)), draw(st.binary(min_size=1, max_size=40))

    def mutate(files: dict[str, bytes]) -> dict[str, bytes]:
        names = sorted(files)
        one, two = names[which % len(names)], names[other % len(names)]
        content, changed = files[one], dict(files)
        cut = int(at * len(content))
        if kind == "insert":
            changed[one] = content[:cut] + data + content[cut:]
        elif kind == "delete":
            changed[one] = content[:cut] + content[cut + len(data) :]
        elif kind == "overwrite":
            changed[one] = content[:cut] + data + content[cut + len(data) :]
        elif kind == "append":
            changed[one] = content + data
        elif kind == "drop":
            del changed[one]
        elif kind == "swap":
            changed[one], changed[two] = files[two], files[one]
        elif kind == "rename":
            changed[f"chunk-{other:06d}.twc"] = changed.pop(one)
        else:
            changed[f"chunk-{other:06d}.twc"] = content
        return changed

    return mutate


@settings(max_examples=400, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(mutations())
def test_mutated_traces_are_refused(
    tmp_path: Path, sealed_files: dict[str, bytes], mutate: Callable[[dict[str, bytes]], dict[str, bytes]]
) -> None:
    changed = mutate(sealed_files)
    folder = write(tmp_path / "t", changed)
    if changed == sealed_files:
        Trace.open(folder).check()
        return
    try:
        trace = Trace.open(folder)
        trace.check()
    except REFUSED:
        return
    # The one edit that cannot be told from an interruption: the seal is gone. Then nothing may be accepted.
    assert f.SEAL not in changed
    assert not trace.sealed
    assert {n: c for n, c in changed.items() if n != f.SEAL} == {n: c for n, c in sealed_files.items() if n != f.SEAL}


def test_an_unsealed_trace_without_its_last_chunk_is_a_shorter_unsealed_trace(
    tmp_path: Path, sealed_files: dict[str, bytes]
) -> None:
    files = {n: c for n, c in sealed_files.items() if n not in (f.SEAL, "chunk-000002.twc")}
    trace = Trace.open(write(tmp_path / "t", files))
    assert (trace.check().steps, trace.sealed) == (6, False)


def test_chunks_of_another_trace_are_refused(tmp_path: Path, sealed_files: dict[str, bytes], make_trace) -> None:
    other = make_trace("other", seed=5)
    files = dict(sealed_files) | {"chunk-000001.twc": (other / "chunk-000001.twc").read_bytes()}
    for sealed in (True, False):
        chosen = {n: c for n, c in files.items() if sealed or n != f.SEAL}
        with pytest.raises(TraceDamaged, match=r"chunk-000001\.twc"):
            Trace.open(write(tmp_path / "t", chosen)).check()


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.data())
def test_a_packed_trace_with_any_byte_changed_is_refused_or_reads_the_same(
    tmp_path: Path, sealed_files: dict[str, bytes], data: st.DataObject
) -> None:
    packed, good = tmp_path / "t.zip", tmp_path / "good.zip"
    if not good.exists():
        pack(write(tmp_path / "t", sealed_files), good)
    content = bytearray(good.read_bytes())
    position = data.draw(st.integers(0, len(content) - 1))
    content[position] ^= data.draw(st.integers(1, 255))
    packed.write_bytes(content)
    try:
        trace = Trace.open(packed)
        checked = trace.check()
    except REFUSED:
        return
    assert checked == Trace.open(good).check()  # a time stamp or a checksum that nobody reads
    assert trace.sealed


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.binary(max_size=300))
def test_arbitrary_files_are_not_packed_traces(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "t.zip").write_bytes(content)
    with pytest.raises(TraceDamaged):
        Trace.open(tmp_path / "t.zip")


@pytest.mark.parametrize("name", ["../escape", "/etc/x", "chunk-000000.twc/../../x", "a\\b", "seal.json\0x", "x.py"])
def test_a_packed_path_escape_is_refused(tmp_path: Path, sealed_files: dict[str, bytes], name: str) -> None:
    with zipfile.ZipFile(tmp_path / "t.zip", "w") as archive:
        for good, content in sealed_files.items():
            archive.writestr(good, content)
        archive.writestr(name, b"x")
    with pytest.raises(TraceDamaged, match="does not belong in a trace"):
        Trace.open(tmp_path / "t.zip")


def test_a_compressed_bomb_is_refused_unread(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "t.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("manifest.json", b"\0" * (1 << 24))
    with pytest.raises(TraceDamaged, match="compressed"):
        Trace.open(tmp_path / "t.zip")


def test_links_pipes_and_folders_inside_a_trace_are_refused(tmp_path: Path, sealed_files: dict[str, bytes]) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(sealed_files["seal.json"])
    makers = {
        "link": lambda path: path.symlink_to(secret),
        "pipe": os.mkfifo,
        "folder": Path.mkdir,
        "device": lambda path: path.symlink_to("/dev/zero"),
    }
    for make in makers.values():
        folder = write(tmp_path / "t", {n: c for n, c in sealed_files.items() if n != "seal.json"})
        make(folder / "seal.json")
        with pytest.raises(TraceDamaged, match=r"seal\.json"):
            Trace.open(folder)


def chunk_with(folder: Path, trace: Trace, **changes: object) -> ChunkWriter:
    header = {
        "trace": trace.id, "index": 0, "previous": f.NO_DIGEST, "first_step": 0, "state": "0" * 64,
        "tensors": [("param/w", "float32", [2])],
    } | changes  # fmt: skip
    return ChunkWriter(folder / f.chunk_name(0), f.ChunkHeader.model_validate(header), [])


def test_a_chunk_that_claims_terabytes_allocates_nothing(tmp_path: Path, sealed_files: dict[str, bytes]) -> None:
    """An attacker can make digests match; sizes must still be backed by bytes."""
    folder = write(tmp_path / "t", {"manifest.json": sealed_files["manifest.json"]})
    trace = Trace.open(folder)
    for shape in ([1 << 33], [1 << 40], [1 << 20, 1 << 20]):
        chunk_with(folder, trace, tensors=[("param/w", "float32", shape)]).finish()
        tracemalloc.start()
        with pytest.raises(TraceDamaged):
            Trace.open(folder).check()
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
        tracemalloc.stop()


def test_a_record_longer_than_its_chunk_is_refused(tmp_path: Path, sealed_files: dict[str, bytes]) -> None:
    import hashlib

    folder = write(tmp_path / "t", {"manifest.json": sealed_files["manifest.json"]})
    for kind, length in ((b"H", 1 << 60), (b"X", 1), (b"H", 0)):
        body = MAGIC + struct.pack("<cQ", kind, length)
        (folder / f.chunk_name(0)).write_bytes(body + hashlib.sha256(body).digest())
        with pytest.raises(TraceDamaged, match=r"chunk-000000\.twc, offset"):
            Trace.open(folder).check()


def resealed(content: bytes, change: Callable[[dict], None]) -> bytes:
    """A JSON file altered by someone who knows the format and recomputes its digest."""
    import hashlib

    record = json.loads(content)
    del record["sha256"]
    change(record)
    body = json.dumps(record, separators=(",", ":")).encode()[:-1]
    return body + f',"sha256":"{hashlib.sha256(body).hexdigest()}"}}\n'.encode()


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("manifest.json", lambda m: m.update(format="trainwitness/trace/2")),
        ("manifest.json", lambda m: m.update(extra=1)),
        ("manifest.json", lambda m: m.update(seed="0")),
        ("manifest.json", lambda m: m.update(seed=1)),  # well formed, but no longer the manifest of these chunks
        ("manifest.json", lambda m: m["numerics"].update(precision="float8")),
        ("seal.json", lambda s: s.update(steps=6)),
        ("seal.json", lambda s: s.update(step_root="0" * 64)),
        ("seal.json", lambda s: s.update(data_root="0" * 64)),
        ("seal.json", lambda s: s.update(final_state="0" * 64)),
        ("seal.json", lambda s: s.update(chunks=s["chunks"][:-1])),
        ("seal.json", lambda s: s.update(chunks=s["chunks"][::-1])),
        ("seal.json", lambda s: s.update(sessions=["0" * 64])),
        ("seal.json", lambda s: s.update(trace="0" * 64)),
    ],
)
def test_a_rewritten_digest_does_not_help(
    tmp_path: Path, sealed_files: dict[str, bytes], name: str, change: Callable[[dict], None]
) -> None:
    files = dict(sealed_files) | {name: resealed(sealed_files[name], change)}
    with pytest.raises(TrainwitnessError) as caught:
        Trace.open(write(tmp_path / "t", files)).check()
    assert caught.value.exit_code == 3


@pytest.mark.parametrize("text", ["[" * 100_000, "9" * 100_000, '{"seed": NaN}', "\xff", '{"a":' * 50_000])
def test_hostile_json_is_refused(tmp_path: Path, sealed_files: dict[str, bytes], text: str) -> None:
    import hashlib

    body = text.encode("latin-1")
    content = body + f',"sha256":"{hashlib.sha256(body).hexdigest()}"}}\n'.encode()
    with pytest.raises(TraceDamaged, match=r"manifest\.json"):
        Trace.open(write(tmp_path / "t", {"manifest.json": content}))


def rewritten_chunk(
    folder: Path, edit: Callable[[list[f.StepRecord]], list[f.StepRecord]], tail: bytes = b""
) -> None:
    """A one-chunk trace with its steps' records rewritten by someone who makes all digests match."""
    from trainwitness.trace.chunk import ChunkReader

    path = folder / f.chunk_name(0)
    with path.open("rb") as file:
        chunk = ChunkReader(file, path.name)
        header, keyframe, frames = chunk.header, chunk.keyframe(), list(chunk.frames())
    writer = ChunkWriter(path, header, [keyframe])
    for record, frame in zip(edit([frame.record for frame in frames]), frames, strict=True):
        writer.append(record.to_bytes(), [frame.data + tail])
    writer.finish()


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda rs: [r.model_copy(update={"step": r.step + 1}) for r in rs], "step 0 belongs here"),
        (lambda rs: [*rs[:-1], rs[-1].model_copy(update={"state": None})], "go together"),
        (lambda rs: [rs[0].model_copy(update={"state": "0" * 64}), *rs[1:]], "does not have the digest"),
        (lambda rs: [rs[0].model_copy(update={"tensors": [("a", "float32", [1])]}), *rs[1:]], "claim to hold"),
        (lambda rs: [rs[0].model_copy(update={"carried": {"99": ""}}), *rs[1:]], "outside the batch"),
    ],
)
def test_matching_digests_do_not_make_nonsense_readable(
    make_trace: Callable[..., Path], edit: Callable[[list[f.StepRecord]], list[f.StepRecord]], message: str
) -> None:
    folder = make_trace(steps=3)
    (folder / f.SEAL).unlink()
    rewritten_chunk(folder, edit)
    with pytest.raises(TraceDamaged, match=message):
        Trace.open(folder).check()


def test_a_redundant_table_and_trailing_frames_are_refused(make_trace: Callable[..., Path]) -> None:
    import zstandard

    folder = make_trace(steps=3)
    (folder / f.SEAL).unlink()
    table = [("param/bias", "float32", [3]), ("param/weight", "float32", [3, 4])]
    rewritten_chunk(folder, lambda rs: [rs[0].model_copy(update={"tensors": table}), *rs[1:]])
    with pytest.raises(TraceDamaged, match="whose table is new"):
        Trace.open(folder).check()
    rewritten_chunk(folder, lambda rs: [rs[0].model_copy(update={"tensors": None}), *rs[1:]])
    assert Trace.open(folder).check().steps == 3
    for tail in (zstandard.ZstdCompressor().compress(b""), b"\0", b"\x50\x2a\x4d\x18\x00\x00\x00\x00"):
        rewritten_chunk(folder, lambda rs: rs, tail)
        with pytest.raises(TraceDamaged):
            Trace.open(folder).check()
        folder = make_trace(f"again{len(tail)}{tail[0]}", steps=3)
        (folder / f.SEAL).unlink()


def test_a_key_twice_is_refused(tmp_path: Path, sealed_files: dict[str, bytes]) -> None:
    import hashlib

    body = sealed_files["manifest.json"][:-78].replace(b'"seed":0', b'"seed":0,"seed":0')
    content = body + f',"sha256":"{hashlib.sha256(body).hexdigest()}"}}\n'.encode()
    with pytest.raises(TraceDamaged, match="twice"):
        Trace.open(write(tmp_path / "t", {"manifest.json": content}))


def rebuilt(path: Path, folder: Path, **seal: object) -> Path:
    """A copy of a trace whose seal was rewritten by someone who recomputes its digest."""
    shutil.copytree(path, folder)
    content = (folder / f.SEAL).read_bytes()
    (folder / f.SEAL).write_bytes(resealed(content, lambda s: s.update(seal)))
    return folder


def test_steps_behind_the_seals_number_are_not_hidden(make_trace: Callable[..., Path], tmp_path: Path) -> None:
    from trainwitness.commitments.merkle import Frontier

    path = make_trace(steps=4, chunk_steps=2)
    trace = Trace.open(path)
    frames = list(trace.frames())
    root = (
        Frontier([f.initial_leaf(trace.initial_state().digest().hex()), *(x.leaf for x in frames[:2])]).root().hex()
    )
    hidden = rebuilt(path, tmp_path / "hidden", steps=2, step_root=root, final_state=frames[1].record.state)
    with pytest.raises(TraceDamaged, match="4 steps, the seal states 2"):
        Trace.open(hidden).check()
    for number, steps in enumerate((-1, 0)):
        with pytest.raises(TraceDamaged, match=r"seal\.json"):
            Trace.open(rebuilt(path, tmp_path / f"n{number}", steps=steps))


def test_a_chunk_that_repeats_or_leaves_out_steps_is_refused(make_trace: Callable[..., Path], tmp_path: Path) -> None:
    from trainwitness.trace.chunk import ChunkReader

    for first in (1, 5):
        path = make_trace(f"t{first}", steps=4, chunk_steps=2)
        (path / f.SEAL).unlink()
        second = path / f.chunk_name(1)
        with second.open("rb") as file:
            chunk = ChunkReader(file, second.name)
            header = chunk.header.model_copy(update={"first_step": first})
            keyframe, frames = chunk.keyframe(), list(chunk.frames())
        writer = ChunkWriter(second, header, [keyframe])
        for number, frame in enumerate(frames):
            writer.append(frame.record.model_copy(update={"step": first + number}).to_bytes(), [frame.data])
        writer.finish()
        with pytest.raises(TraceDamaged, match=f"begins with step {first}, not 2"):
            Trace.open(path).check()


@pytest.mark.parametrize("position", range(-22, 0))
def test_the_end_record_of_a_packed_trace(tmp_path: Path, sealed_files: dict[str, bytes], position: int) -> None:
    pack(write(tmp_path / "t", sealed_files), tmp_path / "good.zip")
    content = bytearray((tmp_path / "good.zip").read_bytes())
    for value in (0, 1, 50, 127, 255):
        content[position] = value
        (tmp_path / "t.zip").write_bytes(content)
        with contextlib.suppress(*REFUSED):
            assert Trace.open(tmp_path / "t.zip").check().steps == 7


def test_a_huge_sparse_chunk_is_refused_at_once(tmp_path: Path, sealed_files: dict[str, bytes]) -> None:
    folder = write(tmp_path / "t", {"manifest.json": sealed_files["manifest.json"]})
    with (folder / f.chunk_name(0)).open("wb") as file:
        file.write(MAGIC + struct.pack("<cQ", b"H", 1 << 39))
        file.truncate(1 << 40)
    with pytest.raises(TraceDamaged, match="or the limit"):
        Trace.open(folder)

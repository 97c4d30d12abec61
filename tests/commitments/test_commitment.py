"""Commitments: what they cover, where rows come from, memory, and the seed they decide."""

from __future__ import annotations

import hashlib
import hmac
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.commitments.test_merkle import definition
from tests.conftest import tiny_task
from trainwitness import Dataset, TaskSpec
from trainwitness.commitments.commitment import (
    Commitment,
    Rows,
    bound_seed,
    commit,
    parse_commitment,
    read_commitment,
    write_commitment,
)
from trainwitness.commitments.merkle import Frontier
from trainwitness.commitments.sources import open_rows, rows_of
from trainwitness.core.canonical import row_bytes
from trainwitness.core.errors import DataDamaged, DataMissing, EvidenceDamaged, StorageError, UsageError
from trainwitness.core.records import dump
from trainwitness.trace.record import dataset_facts

KEY, NONCE = bytes(range(32)), "0123456789abcdef0123456789abcdef"


def tiny() -> Commitment:
    return commit(rows_of(tiny_task().dataset))


def test_a_commitment_has_the_root_that_traces_state() -> None:
    dataset = tiny_task().dataset
    made = commit(rows_of(dataset))
    assert made.data == dataset_facts(dataset)
    assert made.data.root == Frontier(dataset.row(k) for k in range(40)).root().hex()
    assert (made.data.rows, made.data.row_schema) == (40, "uint8[4] int64[]")


def test_every_byte_of_input_and_label_is_in_the_root() -> None:
    dataset = tiny_task().dataset
    for which in ("inputs", "labels"):
        changed = {name: getattr(dataset, name).copy() for name in ("inputs", "labels")}
        changed[which][17] ^= 1
        other = Dataset("tiny", changed["inputs"], changed["labels"])
        assert commit(rows_of(other)).data.root != tiny().data.root


def test_the_order_of_rows_and_their_type_count_too() -> None:
    dataset = tiny_task().dataset
    backwards = Dataset("tiny", dataset.inputs[::-1], dataset.labels[::-1])
    wider = Dataset("tiny", dataset.inputs.astype(np.int16), dataset.labels)
    roots = {commit(rows_of(one)).data.root for one in (dataset, backwards, wider)}
    assert len(roots) == 3


def test_files_hold_what_was_written_and_refuse_any_change(tmp_path: Path) -> None:
    made = write_commitment(tmp_path / "c", lambda file: commit(rows_of(tiny_task().dataset), leaves=file), None)
    assert read_commitment(tmp_path / "c") == made == tiny()
    content = (tmp_path / "c").read_bytes()
    for at in range(len(content)):
        with pytest.raises(EvidenceDamaged):
            parse_commitment(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :], "c")
    with pytest.raises(StorageError, match="is there already"):
        write_commitment(tmp_path / "c", lambda _: made, None)


def test_leaf_hashes_are_written_beside(tmp_path: Path) -> None:
    dataset = tiny_task().dataset
    made = write_commitment(
        tmp_path / "c", lambda file: commit(rows_of(dataset), key=KEY, leaves=file), tmp_path / "leaves"
    )
    assert made == commit(rows_of(dataset), key=KEY)
    tree, content = Frontier(), (tmp_path / "leaves").read_bytes()
    for at in range(0, len(content), 32):
        tree.append_hash(content[at : at + 32])
    assert tree.root().hex() == made.data.root


def test_a_commitment_in_another_form_is_refused() -> None:
    """Its digest must be the one everybody computes from what it says."""
    made = tiny()
    body = made.model_dump_json(indent=1).encode()[:-1]
    content = body + f',"sha256":"{hashlib.sha256(body).hexdigest()}"}}\n'.encode()
    with pytest.raises(EvidenceDamaged, match="not written as commitments are"):
        parse_commitment(content, "c")
    assert parse_commitment(dump(made)[0], "c") == made


def test_rows_of_arrays_and_texts(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    inputs, labels = rng.normal(size=(30, 5)).astype(np.float32), rng.integers(0, 3, 30)
    np.save(tmp_path / "x.npy", inputs)
    np.save(tmp_path / "y.npy", labels)
    mapped = commit(open_rows(TaskSpec(name=str(tmp_path / "x.npy")), labels=tmp_path / "y.npy"))
    assert mapped.data.root == commit(rows_of(Dataset("x", inputs, labels))).data.root
    (tmp_path / "t.txt").write_bytes("one\nzwölf\n\nlast".encode())
    lines = commit(open_rows(TaskSpec(name=str(tmp_path / "t.txt"))))
    assert lines.data.root == Frontier(row_bytes((text,)) for text in ("one", "zwölf", "", "last")).root().hex()


def test_what_has_no_rows_is_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "object.npy", np.array([{}], dtype=object), allow_pickle=True)
    np.save(tmp_path / "text.npy", np.array(["a"]))
    np.save(tmp_path / "x.npy", np.zeros((3, 2)))
    (tmp_path / "broken.npy").write_bytes(b"\x93NUMPY")
    (tmp_path / "empty.txt").touch()
    (tmp_path / "latin.txt").write_bytes(b"\xe9")
    for name in ("object", "text", "broken"):
        with pytest.raises(DataDamaged):
            open_rows(TaskSpec(name=str(tmp_path / f"{name}.npy")), labels=tmp_path / "x.npy")
    with pytest.raises(UsageError, match="labels"):
        open_rows(TaskSpec(name=str(tmp_path / "x.npy")))
    with pytest.raises(UsageError, match="no rows"):
        commit(open_rows(TaskSpec(name=str(tmp_path / "empty.txt"))))
    with pytest.raises(DataDamaged, match="line 1 is not UTF-8"):
        commit(open_rows(TaskSpec(name=str(tmp_path / "latin.txt"))))
    with pytest.raises(DataMissing):
        open_rows(TaskSpec(name=str(tmp_path / "none.txt")))
    with pytest.raises(UsageError, match="unknown task"):
        open_rows(TaskSpec(name="nonsense"))


PEAK = """
import sys
from pathlib import Path
from trainwitness.commitments.commitment import Rows, commit
count = int(sys.argv[1])
commit(Rows("made up", "bytes", lambda: (number.to_bytes(1024, "big") for number in range(count))))
lines = Path("/proc/self/status").read_text().splitlines()
print(next(line for line in lines if line.startswith("VmHWM")).split()[1])
"""


def test_memory_does_not_grow_with_the_rows() -> None:
    peaks = [
        int(subprocess.run([sys.executable, "-c", PEAK, rows], capture_output=True, text=True, check=True).stdout)
        for rows in ("5000", "100000")
    ]
    assert peaks[1] - peaks[0] < 8_000  # kB; 95 MB more were hashed


def test_the_seed_changes_with_everything_it_is_bound_to() -> None:
    made = tiny()
    keyed = commit(rows_of(tiny_task().dataset), key=KEY)
    seeds = {bound_seed(made, NONCE), bound_seed(keyed, NONCE), bound_seed(made, NONCE[::-1])}
    assert len(seeds) == 3
    assert all(0 <= seed < 2**63 for seed in seeds)
    assert bound_seed(made, NONCE) == bound_seed(tiny(), NONCE)


def test_the_bytes_under_digest_and_seed() -> None:
    """Part of the promise, computed here from the words of docs/commitments.md alone."""
    contents = [b"a", b"b", b"c"]
    made = commit(Rows("toy", "utf8[n]", lambda: iter(contents)), key=KEY)
    leaves = sorted(hmac.digest(KEY, row, "sha256") + struct.pack(">Q", k) for k, row in enumerate(contents))
    fixed = hashlib.sha256(b"trainwitness/absence-key/v1\0" + KEY).hexdigest()
    text = (
        '{"format":"trainwitness/commitment/1","data":{"name":"toy","rows":3,"row_schema":"utf8[n]",'
        f'"root":"{definition(contents).hex()}"}},"sorted":{{"root":"{definition(leaves).hex()}","key":"{fixed}"}}'
    )
    digest = hashlib.sha256(text.encode()).hexdigest()
    assert made.digest == digest == "ded34b501a15222191a86f6f999bb4e605e6ecf890f562e3505c4f0666ed1fa8"
    bound = hashlib.sha256(b"trainwitness/seed/v1\0" + f'[0,"bound","{digest}","{NONCE}"]'.encode()).digest()
    assert bound_seed(made, NONCE) == int.from_bytes(bound[:8], "little") >> 1


@pytest.mark.parametrize("nonce", ["", "short", "x" * 2000, "0123456789abcdef\n"])
def test_guessable_and_odd_nonces_are_refused(nonce: str) -> None:
    with pytest.raises(UsageError, match="nonce"):
        bound_seed(tiny(), nonce)

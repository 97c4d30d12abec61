"""A trained model, keys, and a time-stamping authority, made once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from safetensors.torch import save_file

from tests.attestation.authority import Authority
from tests.commitments.test_commitment import KEY, NONCE
from trainwitness import TaskSpec, Trace, build_task, record
from trainwitness.attestation.keys import make_key
from trainwitness.commitments.commitment import Commitment, bound_seed, commit, write_commitment
from trainwitness.commitments.sources import rows_of


@dataclass(frozen=True)
class Owner:
    """What an honest owner has after training."""

    folder: Path
    trace: Path
    model: Path
    commitment: Commitment
    commitment_file: Path
    keys: dict[str, Path]


@pytest.fixture(scope="session")
def owner(tmp_path_factory: pytest.TempPathFactory) -> Owner:
    folder = tmp_path_factory.mktemp("owner")
    dataset = build_task("softmax-digits").dataset
    made = write_commitment(folder / "data.commit", lambda _: commit(rows_of(dataset), key=KEY), None)
    spec = TaskSpec(name="softmax-digits", options={"seed": bound_seed(made, NONCE)})
    record(build_task(spec), folder / "run.trace", steps=12)
    final = Trace.open(folder / "run.trace").final_state()
    save_file({name: tensor.clone() for name, tensor in final.part("param").items()}, folder / "model.safetensors")
    for kind in ("ed25519", "ecdsa"):
        make_key(folder / f"{kind}.key", kind)  # type: ignore[arg-type]
    keys = {kind: folder / f"{kind}.key" for kind in ("ed25519", "ecdsa")}
    return Owner(folder, folder / "run.trace", folder / "model.safetensors", made, folder / "data.commit", keys)


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Authority]:
    made = Authority(tmp_path_factory.mktemp("tsa") / "tsa")
    server = made.serve()
    yield made
    server.shutdown()

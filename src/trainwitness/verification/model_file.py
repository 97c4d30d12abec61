"""Property `model_bound`: a shipped model file is the trace's final State."""

from __future__ import annotations

from pathlib import Path

import torch

from trainwitness.core.canonical import tensor_bytes
from trainwitness.core.errors import StorageError
from trainwitness.core.state import State
from trainwitness.core.verdict import Property


def check_model(path: Path, final: State) -> Property:
    """Compares every tensor of a safetensors file with the final State, bit for bit."""
    shipped, expected = read_model(path), {**final.part("param"), **final.part("buffer")}
    unknown, missing = sorted(set(shipped) - set(expected)), sorted(set(final.part("param")) - set(shipped))
    if unknown or missing:
        what = f"{unknown[0]} is not in the trace" if unknown else f"parameter {missing[0]} is not in the file"
        return Property(standing="refuted", why=f"{path.name}: {what}")
    for name, tensor in shipped.items():
        if not _same_bits(tensor, expected[name]):
            return Property(standing="refuted", why=f"{path.name}: {name} differs from the final State")
    return Property(standing="established", why=f"{path.name} is the final State, bit for bit")


def read_model(path: Path) -> dict[str, torch.Tensor]:
    """The tensors of a safetensors file. Pickled files (.pt, .bin) are not read: loading one can run its code."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        return load_file(path)
    except (OSError, SafetensorError, KeyError, ValueError) as error:
        raise StorageError(
            f"{path}: cannot be read as safetensors: {error}",
            hint="save the model with safetensors.torch.save_file(model.state_dict(), path)",
        ) from error


def _same_bits(one: torch.Tensor, other: torch.Tensor) -> bool:
    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    return bool((tensor_bytes(one) == tensor_bytes(other)).all())

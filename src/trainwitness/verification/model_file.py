"""Property `model_bound`: a shipped model file is the trace's final State."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import torch

from trainwitness.core.canonical import same_bits
from trainwitness.core.errors import StorageError
from trainwitness.core.state import State
from trainwitness.core.verdict import Property


def check_model(path: Path, final: State, names: Collection[str]) -> Property:
    """Compares every tensor of a safetensors file with the final State, bit for bit; `names` must all be there."""
    shipped, expected = read_model(path), {**final.part("param"), **final.part("buffer")}
    unknown, missing = sorted(set(shipped) - set(expected)), sorted((set(names) & set(expected)) - set(shipped))
    if unknown or missing:
        what = f"{unknown[0]} is not in the trace" if unknown else f"{missing[0]} is not in the file"
        return Property(standing="refuted", why=f"{path.name}: {what}")
    for name, tensor in shipped.items():
        if not same_bits(tensor, expected[name]):
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

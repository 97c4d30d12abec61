"""Where a step's randomness comes from: seeds derived by name, never a carried generator state."""

from __future__ import annotations

import torch

from trainwitness.core.seeds import derive


def seed_micro_batch(seed: int, step: int, micro: int) -> None:
    """Seeds PyTorch for the forward and backward pass of one micro-batch (dropout)."""
    _seed_devices(derive(seed, "step", step, micro))


def seed_epoch(seed: int, epoch: int, *generators: torch.Generator | None) -> None:
    """Seeds PyTorch, and a loader's own generators, before an epoch's order of rows is drawn."""
    value = derive(seed, "epoch", epoch)
    _seed_devices(value)
    for generator in generators:
        if generator is not None:
            generator.manual_seed(value)


def _seed_devices(value: int) -> None:
    # What torch.manual_seed does, without its 0.2 ms for devices that are not in use.
    torch.default_generator.manual_seed(value)
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        torch.cuda.manual_seed_all(value)


def drew_random_numbers(seed: int, step: int, micro: int, device: torch.device) -> bool:
    """Whether anything was drawn on `device` since `seed_micro_batch(seed, step, micro)`; seeds it again."""
    now = _generator_state(device)
    seed_micro_batch(seed, step, micro)
    return not torch.equal(now, _generator_state(device))


def _generator_state(device: torch.device) -> torch.Tensor:
    state: torch.Tensor = torch.cuda.get_rng_state(device) if device.type == "cuda" else torch.get_rng_state()
    return state

"""Where a step's randomness comes from: seeds derived by name, never a carried generator state."""

from __future__ import annotations

import torch

from trainwitness.core.seeds import derive


def seed_micro_batch(seed: int, step: int, micro: int) -> None:
    """Seeds PyTorch (all devices) for the forward and backward pass of one micro-batch (dropout)."""
    torch.manual_seed(derive(seed, "step", step, micro))


def seed_epoch(seed: int, epoch: int, *generators: torch.Generator | None) -> None:
    """Seeds PyTorch, and a loader's own generators, before an epoch's order of rows is drawn."""
    value = derive(seed, "epoch", epoch)
    torch.manual_seed(value)
    for generator in generators:
        if generator is not None:
            generator.manual_seed(value)

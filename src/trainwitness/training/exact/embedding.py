"""Embedding: rows of a table."""

from __future__ import annotations

from typing import Any

import torch

from trainwitness.training.exact.grid import joined, limb_count, room, top, write_limbs
from trainwitness.training.exact.linear import Gradients
from trainwitness.training.exact.witness import Witness


class Embedding(torch.autograd.Function):
    """table[ids]; the gradient adds up the errors of every use of a row, in limbs."""

    @staticmethod
    def forward(
        ctx: Any, ids: torch.Tensor, table: torch.Tensor, padding: int | None, witness: Witness
    ) -> torch.Tensor:
        ctx.witness, ctx.call, ctx.rows, ctx.padding = witness, witness.call(), len(table), padding
        ctx.save_for_backward(ids)
        return table[ids]

    @staticmethod
    def backward(ctx: Any, *errors: torch.Tensor) -> Gradients:
        (ids,) = ctx.saved_tensors
        witness: Witness = ctx.witness
        error = errors[0].reshape(ids.numel(), -1)
        bits = room(len(error))
        limbs = limb_count(bits)
        slots = error.new_empty((len(error), limbs, error.shape[1]))
        largest = top(error, witness)
        write_limbs(error, bits, slots.unbind(1), largest)
        witness.keep(ctx.call, "grid", largest)
        sums = error.new_zeros((ctx.rows, limbs * error.shape[1])).index_add_(0, ids.reshape(-1), slots.flatten(1))
        if ctx.padding is not None:
            sums[ctx.padding].zero_()
        kept = witness.keep(ctx.call, "table", sums.view(ctx.rows, limbs, -1).transpose(0, 1).contiguous())
        return None, joined(kept), None, None

"""Multi-head attention from linear layers, matrix products and softmax."""

from __future__ import annotations

import math
from typing import Any

import torch

from trainwitness.core.errors import UsageError
from trainwitness.training.exact.functions import TWINS, dropout, linear, matmul, softmax, twin
from trainwitness.training.exact.witness import Witness

__all__ = ["TWINS"]


@twin("scaled_dot_product_attention")
def scaled_dot_product_attention(
    w: Witness, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0, is_causal: bool = False, scale: float | None = None, enable_gqa: bool = False,
) -> torch.Tensor:  # fmt: skip
    """softmax(Q K' / sqrt(d)) V."""
    if attn_mask is not None or is_causal or enable_gqa:
        raise UsageError("attention with a mask has no exact twin", hint="attend to all positions")
    scores = matmul(w, query * (1 / math.sqrt(query.shape[-1]) if scale is None else scale), key.mT)
    return matmul(w, dropout(w, softmax(w, scores, -1), dropout_p), value)


@twin("multi_head_attention_forward")
def multi_head_attention(
    w: Witness, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, width: int, heads: int,
    in_weight: torch.Tensor | None, in_bias: torch.Tensor | None, bias_k: Any, bias_v: Any, zero_attention: bool,  # noqa: ARG001
    dropout_p: float, out_weight: torch.Tensor, out_bias: torch.Tensor | None, training: bool = True,
    key_padding_mask: torch.Tensor | None = None, need_weights: bool = True, attn_mask: torch.Tensor | None = None,
    **settings: Any,
) -> tuple[torch.Tensor, torch.Tensor | None]:  # fmt: skip
    """As `torch.nn.MultiheadAttention` calls it: [length, batch, width], one joint input projection, no masks."""
    if in_weight is None or settings.get("use_separate_proj_weight") or settings.get("is_causal"):
        raise UsageError("this form of multi-head attention has no exact twin", hint="use one width for all inputs")
    if key_padding_mask is not None or attn_mask is not None:
        raise UsageError("attention with a mask has no exact twin", hint="attend to all positions")
    biases = [None] * 3 if in_bias is None else list(in_bias.chunk(3))
    parts = [
        _heads(linear(w, x, weight, bias), heads)
        for x, weight, bias in zip((query, key, value), in_weight.chunk(3), biases, strict=True)
    ]
    scores = matmul(w, parts[0] * (1 / math.sqrt(width // heads)), parts[1].mT)
    weights = dropout(w, softmax(w, scores, -1), dropout_p, training)
    mixed = matmul(w, weights, parts[2]).permute(2, 0, 1, 3).flatten(2)
    out = linear(w, mixed, out_weight, out_bias)
    return out, weights.detach().mean(1) if need_weights else None


def _heads(x: torch.Tensor, heads: int) -> torch.Tensor:
    """[length, batch, width] -> [batch, heads, length, width of a head]."""
    return x.view(*x.shape[:2], heads, -1).permute(1, 2, 0, 3)

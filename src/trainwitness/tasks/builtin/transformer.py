"""The one-block transformer on IMDB: 657,758 parameters."""

from __future__ import annotations

from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

from trainwitness.tasks.builtin.common import Options, classification_task
from trainwitness.tasks.data import imdb
from trainwitness.tasks.registry import register
from trainwitness.tasks.task import Task

WIDTH, HEADS, HEAD_WIDTH = 32, 2, 32


class Attention(nn.Module):
    """Self-attention over all positions (no causal mask): two heads of key size 32."""

    def __init__(self) -> None:
        super().__init__()
        inner = HEADS * HEAD_WIDTH
        self.query, self.key, self.value = (nn.Linear(WIDTH, inner) for _ in range(3))
        self.out = nn.Linear(inner, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[b, length, width] -> the same shape."""
        query, key, value = (self._heads(layer(x)) for layer in (self.query, self.key, self.value))
        weights = F.softmax(query @ key.transpose(-1, -2) / HEAD_WIDTH**0.5, dim=-1)
        mixed: torch.Tensor = self.out((weights @ value).transpose(1, 2).flatten(2))
        return mixed

    @staticmethod
    def _heads(x: torch.Tensor) -> torch.Tensor:
        return x.view(*x.shape[:2], HEADS, HEAD_WIDTH).transpose(1, 2)


class Transformer(nn.Module):
    """Token ids [b, 200] -> 2 logits."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(imdb.VOCABULARY, WIDTH)
        self.positions = nn.Embedding(imdb.LENGTH, WIDTH)
        self.attention = Attention()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.feed = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH))
        self.head = nn.Sequential(nn.Linear(WIDTH, 20), nn.ReLU(), nn.Linear(20, 2))

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.tokens(ids) + self.positions.weight
        x = self.norm1(x + self.attention(x))
        x = self.norm2(x + self.feed(x))
        logits: torch.Tensor = self.head(x.mean(1))
        return logits


@register(
    "transformer-imdb", about="one transformer block on IMDB", source=imdb.SOURCE, options=Options, model=Transformer
)
def transformer_imdb(data: Path | None, options: Options) -> Task:
    return classification_task(Transformer, imdb.load(data), options)

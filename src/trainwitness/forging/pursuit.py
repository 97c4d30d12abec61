"""Building a choice one by one; where swap-search and matching-pursuit begin."""

from __future__ import annotations

import torch

from trainwitness.forging.problem import Products


def pursue(found: Products, count: int) -> list[int]:
    """Rows chosen so that after m of them their sum is near m / count of what is wanted."""
    gram, towards = found.gram, found.towards
    free = torch.ones(len(gram), dtype=torch.bool, device=gram.device)
    products = torch.zeros_like(towards)  # the chosen rows' sum with every row of the pool
    choice: list[int] = []
    for chosen in range(1, count + 1):
        score = gram.diagonal() + 2 * (products - towards * (chosen / count))
        score[~free] = torch.inf
        row = int(score.argmin())
        free[row] = False
        products += gram[row]
        choice.append(row)
    return choice

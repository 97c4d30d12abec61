"""How sure a counted share is."""

from __future__ import annotations


def exact_interval(count: int, total: int, outside: float = 0.05) -> tuple[float, float]:
    """The Clopper-Pearson interval of a rate: each side is missed with probability `outside` / 2.

    >>> [round(bound, 3) for bound in exact_interval(0, 5)]
    [0.0, 0.522]
    """
    from scipy.stats import beta

    low = 0.0 if not count else float(beta.ppf(outside / 2, count, total - count + 1))
    high = 1.0 if count == total else float(beta.ppf(1 - outside / 2, count + 1, total - count))
    return low, high

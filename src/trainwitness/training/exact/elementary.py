"""exp, log, tanh and the like from additions, multiplications, divisions and square roots in a fixed order.

IEEE 754 rounds these four in one way only, so element by element the results have the same bits on every device, as
long as each is an operation of its own (a fused multiply-add rounds once where two operations round twice). Library
functions such as torch.exp differ in their last bits. Errors here are below 2^-44, relative.
"""

from __future__ import annotations

import torch

_LOG2_E = 1.4426950408889634
_LN2_HIGH, _LN2_LOW = 0.693147180369123816490, 1.90821492927058770002e-10
"""ln 2 in two parts; the first has zeros at the end, so that its product with a small whole number is exact."""
_SQRT_HALF = 0.7071067811865476
_HALVINGS = 4
_FURTHEST = 700.0


def exp(x: torch.Tensor) -> torch.Tensor:
    """e^x for |x| <= 700; beyond it e^700 or e^-700.

    x = n ln 2 + r; e^(r/16) by its series to the sixth power, squared four times; 2^n by writing its exponent.
    """
    x = x.clamp(-_FURTHEST, _FURTHEST)
    n = (x * _LOG2_E).round_()
    r = (x - n * _LN2_HIGH).sub_(n * _LN2_LOW).mul_(2.0**-_HALVINGS)
    series = r * (1 / 720)
    for factorial in (120, 24, 6, 2):
        series.add_(1 / factorial).mul_(r)
    series.add_(1.0).mul_(r).add_(1.0)
    for _ in range(_HALVINGS):
        series.mul_(series)
    power = n.add_(1023.0).to(torch.int64).bitwise_left_shift_(52).view(torch.float64)
    return series.mul_(power)


def log(x: torch.Tensor) -> torch.Tensor:
    """ln x for x > 0: ln(m 2^e) = e ln 2 + 2 artanh((m - 1) / (m + 1)), with m between sqrt(1/2) and sqrt(2)."""
    mantissa, exponent = torch.frexp(x)
    small = mantissa < _SQRT_HALF
    mantissa = torch.where(small, mantissa * 2.0, mantissa)
    whole = exponent.to(torch.float64) - small.to(torch.float64)
    f = (mantissa - 1.0) / (mantissa + 1.0)
    square = f * f
    series = square * (1 / 15)
    for odd in (13, 11, 9, 7, 5, 3):
        series.add_(1 / odd).mul_(square)
    return (series + 1.0) * f * 2.0 + whole * _LN2_LOW + whole * _LN2_HIGH


def sigmoids(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """1 / (1 + e^-x) and 1 / (1 + e^x), both without cancellation."""
    small = exp(-x.abs())
    whole = small + 1.0
    near, far = torch.ones_like(whole) / whole, small / whole
    positive = x >= 0
    return torch.where(positive, near, far), torch.where(positive, far, near)


def tanh(x: torch.Tensor) -> torch.Tensor:
    """(1 - e^-2|x|) / (1 + e^-2|x|), with the sign of x."""
    small = exp(x.abs() * -2.0)
    size = (1.0 - small) / (small + 1.0)
    return torch.where(x >= 0, size, -size)

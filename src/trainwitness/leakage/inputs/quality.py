"""How near restored images are to the true ones: matching, PSNR, SSIM."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F

RECOGNISABLE = 18.0
"""dB from which on people recognise small images; 25 is called exact in the DLG literature."""
_WINDOW, _SIGMA = 11, 1.5
_C1, _C2 = 0.01**2, 0.03**2


@dataclass(frozen=True)
class Quality:
    """One restored example beside the true one it was matched with."""

    truth: int
    psnr: float
    ssim: float | None


def match(restored: torch.Tensor, truth: torch.Tensor) -> list[int]:
    """For each true example the restored one, so that the squared distances in all are least."""
    from scipy.optimize import linear_sum_assignment

    distances = torch.cdist(truth.flatten(1).double(), restored.flatten(1).double()).square()
    _, columns = linear_sum_assignment(distances.cpu().numpy())
    return [int(column) for column in columns]


def judged(restored: torch.Tensor, truth: torch.Tensor) -> list[Quality]:
    """Every true example with the quality of its restoration; values are cut to 0..1 first."""
    cut = restored.clamp(0, 1)
    return [
        Quality(k, psnr(cut[place], truth[k]), ssim(cut[place], truth[k]))
        for k, place in enumerate(match(cut, truth))
    ]


def psnr(restored: torch.Tensor, truth: torch.Tensor) -> float:
    """10 log10(1 / mean squared error) for values in 0..1; 100 for (nearly) no error."""
    error = float((restored.double() - truth.double()).square().mean())
    return min(100.0, -10 * math.log10(max(error, 1e-10)))


def ssim(restored: torch.Tensor, truth: torch.Tensor) -> float | None:
    """Mean structural similarity of two images [c, h, w] (Wang et al. 2004: Gaussian window 11, sigma 1.5)."""
    if restored.dim() != 3 or min(restored.shape[1:]) < _WINDOW:
        return None
    steps = torch.arange(_WINDOW, dtype=torch.float64, device=restored.device) - _WINDOW // 2
    line = torch.exp(-(steps**2) / (2 * _SIGMA**2))
    line = line / line.sum()
    window = (line[:, None] * line[None, :])[None, None]

    def mean(image: torch.Tensor) -> torch.Tensor:
        return F.conv2d(image[:, None], window)

    x, y = restored.double(), truth.double()
    mx, my = mean(x), mean(y)
    vx, vy, covariance = mean(x * x) - mx**2, mean(y * y) - my**2, mean(x * y) - mx * my
    similarity = ((2 * mx * my + _C1) * (2 * covariance + _C2)) / ((mx**2 + my**2 + _C1) * (vx + vy + _C2))
    return float(similarity.mean())

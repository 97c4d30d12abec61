"""What a client may do to a gradient before sharing it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch

from trainwitness.core.errors import UsageError
from trainwitness.core.seeds import gaussian
from trainwitness.core.state import State
from trainwitness.training.per_example import PerExample
from trainwitness.training.single import clipped as cut
from trainwitness.training.stepper import Stepper

Gradient = Mapping[str, torch.Tensor]
DELTA = 1e-5


@dataclass(frozen=True)
class Defence:
    """A named defence with its strength, as `gaussian:1e-3` on the command line."""

    name: str
    strength: float = 0.0
    multiplier: float = 0.0
    """Of `clip`: the noise's standard deviation over the clipping norm."""

    @property
    def label(self) -> str:
        return ":".join([self.name, *(f"{value:g}" for value in (self.strength, self.multiplier) if value)])

    @property
    def per_example(self) -> bool:
        """Whether it works on single examples, before they are averaged."""
        return self.name == "clip"

    def epsilon(self, steps: int = 1) -> float | None:
        """The epsilon of `clip` at delta = 1e-5 for so many shared gradients, without credit for random batches."""
        return gaussian_epsilon(self.multiplier / math.sqrt(steps)) if self.per_example and self.multiplier else None


DEFENCES: dict[str, str] = {
    "gaussian": "gaussian:VARIANCE adds normal noise",
    "laplacian": "laplacian:VARIANCE adds Laplace noise",
    "float16": "float16 rounds to half precision",
    "int8": "int8 rounds each tensor to 255 levels",
    "prune": "prune:SHARE sets the smallest values of each tensor to zero",
    "clip": "clip:NORM:MULTIPLIER clips each example's gradient and adds noise of NORM x MULTIPLIER (DP-SGD)",
}


def parse(text: str) -> Defence:
    """`name`, `name:strength` or `clip:norm:multiplier`."""
    name, *numbers = text.split(":")
    wanted = {"float16": 0, "int8": 0, "clip": 2}.get(name, 1)
    try:
        values = [float(number) for number in numbers]
    except ValueError:
        values = [math.nan]
    if name not in DEFENCES or len(values) != wanted or not all(0 <= v < math.inf for v in values):
        raise UsageError(f"unknown defence {text!r}", hint="; ".join(DEFENCES.values()))
    if name == "prune" and values[0] > 1:
        raise UsageError(f"prune:{values[0]:g}: a share is at most 1", hint=DEFENCES["prune"])
    if name == "clip" and not values[0]:
        raise UsageError("a clipping norm is above 0", hint=DEFENCES["clip"])
    return Defence(name, *values)


def defended(gradient: Gradient, defence: Defence, seed: int) -> dict[str, torch.Tensor]:
    """The gradient as it would be shared; `clip` needs single examples, see `clipped`."""
    if defence.per_example:
        raise UsageError("clip works on single examples, not on their mean")
    generator = torch.Generator().manual_seed(seed)
    return {name: _CHANGES[defence.name](tensor, defence.strength, generator) for name, tensor in gradient.items()}


def clipped(
    stepper: Stepper, state: State, rows: Sequence[int], defence: Defence, seed: int
) -> dict[str, torch.Tensor]:
    """DP-SGD's gradient: each example's is cut to the norm, and noise is added to the sum, before the mean."""
    examples = PerExample(stepper, state)
    total = torch.zeros(examples.width, dtype=torch.float64, device=stepper.device)
    for _, gradients in examples.pieces(rows):
        total += cut(gradients, defence.strength).sum(0)
    noise = torch.from_numpy(gaussian(seed, len(total))).to(total.device)
    mean = (total + defence.strength * defence.multiplier * noise) / len(rows)
    shapes = {name: p.shape for name, p in stepper.live.model.named_parameters() if p.requires_grad}
    parts = torch.split(mean.to(stepper.dtype), [shape.numel() for shape in shapes.values()])
    return {name: part.reshape(shapes[name]) for name, part in zip(shapes, parts, strict=True)}


def gaussian_epsilon(multiplier: float, delta: float = DELTA) -> float:
    """The least epsilon of the Gaussian mechanism with this noise multiplier (Balle and Wang 2018, Theorem 8).

    delta(eps) = Phi(1 / 2s - eps s) - e^eps Phi(-1 / 2s - eps s), exact and decreasing in eps.
    """
    from scipy.optimize import brentq
    from scipy.stats import norm

    def excess(epsilon: float) -> float:
        upper = norm.cdf(0.5 / multiplier - epsilon * multiplier)
        lower = math.exp(epsilon + float(norm.logcdf(-0.5 / multiplier - epsilon * multiplier)))
        return float(upper) - lower - delta

    high = 1.0
    while excess(high) > 0:
        high *= 2
    return 0.0 if excess(0.0) <= 0 else float(brentq(excess, 0.0, high, xtol=1e-9))


def _gaussian(tensor: torch.Tensor, variance: float, generator: torch.Generator) -> torch.Tensor:
    noise = torch.randn(tensor.shape, generator=generator, dtype=torch.float64)
    return tensor + (math.sqrt(variance) * noise).to(tensor)


def _laplacian(tensor: torch.Tensor, variance: float, generator: torch.Generator) -> torch.Tensor:
    """Laplace noise of scale sqrt(variance / 2): its variance is twice the scale squared."""
    sides = torch.rand(tensor.shape, generator=generator, dtype=torch.float64) - 0.5
    noise = -sides.sign() * torch.log1p(-2 * sides.abs().clamp(max=0.5 - 1e-16))
    return tensor + (math.sqrt(variance / 2) * noise).to(tensor)


def _float16(tensor: torch.Tensor, strength: float, generator: torch.Generator) -> torch.Tensor:
    _ = strength, generator
    return tensor.half().to(tensor.dtype)


def _int8(tensor: torch.Tensor, strength: float, generator: torch.Generator) -> torch.Tensor:
    _ = strength, generator
    scale = tensor.abs().max().clamp(min=1e-30) / 127
    return (tensor / scale).round() * scale


def _prune(tensor: torch.Tensor, share: float, generator: torch.Generator) -> torch.Tensor:
    _ = generator
    count = round(share * tensor.numel())
    if not count:
        return tensor.clone()
    smallest = tensor.abs().flatten().argsort()[:count]
    out = tensor.flatten().clone()
    out[smallest] = 0
    return out.reshape(tensor.shape)


_CHANGES: dict[str, Callable[[torch.Tensor, float, torch.Generator], torch.Tensor]] = {
    "gaussian": _gaussian,
    "laplacian": _laplacian,
    "float16": _float16,
    "int8": _int8,
    "prune": _prune,
}

"""What all image data sets share: pixels in 0..255, divided by 255 for the model."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch

from trainwitness.tasks.dataset import Dataset
from trainwitness.tasks.domain import IntegerBox

Pixels = npt.NDArray[np.uint8]


def unit_pixels(inputs: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """q -> q/255 (paper 000, section 5.1)."""
    return inputs.to(dtype) / 255


def image_dataset(name: str, pixels: Pixels, labels: npt.NDArray[np.generic], classes: int = 10) -> Dataset:
    """Rows of uint8 pixels [channels, height, width] and an int64 label."""
    return Dataset(
        name=name,
        inputs=np.ascontiguousarray(pixels),
        labels=labels.astype(np.int64),
        domain=IntegerBox(0, 255, classes),
        prepare=unit_pixels,
    )

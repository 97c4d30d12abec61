"""Numerics: under which arithmetic a step is computed."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

Precision = Literal["float32", "float16", "bfloat16", "float64", "exact"]


class Numerics(BaseModel):
    """Precision, device and kernel switches. A trace says which it was made with; a verifier chooses its own.

    `float16` and `bfloat16` are mixed precision (autocast; float16 with a loss scaler). `exact` is float64 whose
    sums are exact in any order: the same bits whatever else is set here. `threads` of None leaves PyTorch's own
    choice.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    precision: Precision = "float32"
    device: str = Field(default="cpu", max_length=32)
    threads: int | None = Field(default=None, ge=1, le=4096)
    deterministic: bool = False
    """`torch.use_deterministic_algorithms`."""
    autotune: bool = False
    """cuDNN tries kernels and keeps the fastest (`torch.backends.cudnn.benchmark`)."""
    tf32: bool = False
    """CUDA matrix products may use TF32."""
    tf32_convolution: bool = False
    """cuDNN convolutions may use TF32 (PyTorch's own default is that they do)."""
    onednn: bool = True
    """oneDNN kernels on CPU (`torch.backends.mkldnn`)."""

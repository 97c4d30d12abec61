"""Putting Numerics into force for a while."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch

from trainwitness.core.errors import UsageError
from trainwitness.core.numerics import Numerics, Precision

COMPUTE_DTYPE: dict[Precision, torch.dtype] = {
    "float32": torch.float32,
    "float16": torch.float32,
    "bfloat16": torch.float32,
    "float64": torch.float64,
    "exact": torch.float64,
}
"""The dtype parameters are kept in; mixed precision lowers single operations only."""

AUTOCAST_DTYPE: dict[Precision, torch.dtype] = {"float16": torch.float16, "bfloat16": torch.bfloat16}


def autocast_precision(device: str) -> Precision | None:
    """The mixed precision in force on this type of device, if one is."""
    if not torch.is_autocast_enabled(device):
        return None
    dtype = torch.get_autocast_dtype(device)
    return next((precision for precision, lower in AUTOCAST_DTYPE.items() if lower == dtype), None)


def check_device(numerics: Numerics) -> torch.device:
    """The device, if this machine has it."""
    try:
        device = torch.device(numerics.device)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise UsageError(
            f"device {numerics.device!r} cannot be used here: {str(error).splitlines()[0].partition('. ')[0]}",
            hint="use --device cpu, or cuda on a machine with a GPU",
        ) from error
    return device


@contextlib.contextmanager
def applied(numerics: Numerics) -> Iterator[None]:
    """Sets threads, determinism and kernel switches, and puts back what was there before."""
    cudnn, matmul = torch.backends.cudnn, torch.backends.cuda.matmul
    before = (
        torch.get_num_threads(),
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
        cudnn.benchmark,
        _tf32(cudnn),
        _tf32(matmul),
        torch._C._get_mkldnn_enabled(),
    )
    try:
        if numerics.threads is not None:
            torch.set_num_threads(numerics.threads)
        torch.use_deterministic_algorithms(numerics.deterministic)
        cudnn.benchmark = numerics.autotune
        matmul.allow_tf32, cudnn.allow_tf32 = numerics.tf32, numerics.tf32_convolution
        torch._C._set_mkldnn_enabled(numerics.onednn)
        yield
    finally:
        torch.set_num_threads(before[0])
        torch.use_deterministic_algorithms(before[1], warn_only=before[2])
        cudnn.benchmark, cudnn.allow_tf32, matmul.allow_tf32 = before[3:6]
        torch._C._set_mkldnn_enabled(before[6])


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """PyTorch's operations on this CPU by the calling thread alone."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextlib.contextmanager
def autocast(numerics: Numerics) -> Iterator[None]:
    """Mixed precision for the forward pass, where the precision asks for it."""
    dtype = AUTOCAST_DTYPE.get(numerics.precision)
    if dtype is None:
        yield
        return
    with torch.autocast(torch.device(numerics.device).type, dtype=dtype):
        yield


def current_numerics(device: torch.device, precision: Precision) -> Numerics:
    """The Numerics in force now, for a training loop that is not ours."""
    return Numerics(
        precision=precision,
        device=str(device),
        threads=torch.get_num_threads(),
        deterministic=torch.are_deterministic_algorithms_enabled(),
        autotune=torch.backends.cudnn.benchmark,
        tf32=_tf32(torch.backends.cuda.matmul),
        tf32_convolution=_tf32(torch.backends.cudnn),
        onednn=torch._C._get_mkldnn_enabled(),
    )


def _tf32(backend: Any) -> bool:
    try:
        return bool(backend.allow_tf32)
    except RuntimeError:  # set through PyTorch's newer fp32_precision, which refuses the older question
        return bool(backend.fp32_precision == "tf32")

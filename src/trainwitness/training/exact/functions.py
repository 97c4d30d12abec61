"""The exact twins of PyTorch's functions, by name, with PyTorch's own arguments."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch

from trainwitness.core.errors import UsageError
from trainwitness.training.exact import elementwise as e
from trainwitness.training.exact.convolution import Convolution, Shape
from trainwitness.training.exact.dropout import mask
from trainwitness.training.exact.embedding import Embedding
from trainwitness.training.exact.linear import Linear, Matmul
from trainwitness.training.exact.losses import BinaryCrossEntropy, CrossEntropy
from trainwitness.training.exact.normalisation import Normalise, Softmax
from trainwitness.training.exact.pooling import AveragePool, MaxPool
from trainwitness.training.exact.windows import Pair, Windows
from trainwitness.training.exact.witness import Witness

Twin = TypeVar("Twin", bound=Callable[..., Any])
TWINS: dict[str, Callable[..., Any]] = {}


def twin(*names: str) -> Callable[[Twin], Twin]:
    """Decorator: the exact function for calls of these names."""

    def add(function: Twin) -> Twin:
        TWINS.update(dict.fromkeys(names, function))
        return function

    return add


def _only(name: str, **settings: tuple[Any, Any]) -> None:
    """Refuses settings (given, allowed) that have no exact form."""
    for key, (given, allowed) in settings.items():
        if given != allowed:
            raise UsageError(f"{name} with {key}={given} has no exact twin", hint=f"only {key}={allowed} has one")


def _pair(value: int | Sequence[int]) -> Pair:
    return (value, value) if isinstance(value, int) else (value[0], value[-1])


@twin("linear")
def linear(w: Witness, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    return Linear.apply(x, weight, bias, w)  # type: ignore[no-untyped-call, no-any-return]


@twin("conv2d")
def conv2d(
    w: Witness, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None,
    stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1,
) -> torch.Tensor:  # fmt: skip
    size = _pair(tuple(weight.shape[2:]))
    if padding == "valid":
        padding = 0
    if isinstance(padding, str):
        raise UsageError(f"conv2d with padding={padding!r} has no exact twin", hint="give the padding as a number")
    windows = Windows(size, _pair(stride), _pair(padding), _pair(dilation))
    return Convolution.apply(x, weight, bias, Shape(windows, groups), w)  # type: ignore[no-untyped-call, no-any-return]


@twin("matmul", "__matmul__", "bmm")
def matmul(w: Witness, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    if right.dim() == 2:
        return linear(w, left, right.t())
    if left.shape[:-2] != right.shape[:-2] or left.dim() < 3:
        raise UsageError(
            f"a product of {list(left.shape)} and {list(right.shape)} has no exact twin",
            hint="give both the same leading dimensions, or use a linear layer",
        )
    return Matmul.apply(left, right, w)  # type: ignore[no-untyped-call, no-any-return]


@twin("max_pool2d")
def max_pool2d(
    w: Witness, x: torch.Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,  # noqa: ARG001
    ceil_mode: bool = False, return_indices: bool = False,
) -> torch.Tensor:  # fmt: skip
    _only("max_pool2d", ceil_mode=(ceil_mode, False), return_indices=(return_indices, False))
    windows = Windows(_pair(kernel_size), _pair(stride or kernel_size), _pair(padding), _pair(dilation))
    if math.prod(windows.size) > 256:
        raise UsageError(f"max_pool2d over windows of {windows.size} has no exact twin", hint="at most 256 places")
    return MaxPool.apply(x, windows)  # type: ignore[no-untyped-call, no-any-return]


@twin("avg_pool2d")
def avg_pool2d(
    w: Witness, x: torch.Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,  # noqa: ARG001
    count_include_pad: bool = True, divisor_override: int | None = None,
) -> torch.Tensor:  # fmt: skip
    _only("avg_pool2d", ceil_mode=(ceil_mode, False), divisor_override=(divisor_override, None))
    windows = Windows(_pair(kernel_size), _pair(stride or kernel_size), _pair(padding))
    if windows.padding != (0, 0):
        _only("avg_pool2d with padding", count_include_pad=(count_include_pad, True))
    return AveragePool.apply(x, windows)  # type: ignore[no-untyped-call, no-any-return]


@twin("adaptive_avg_pool2d")
def adaptive_avg_pool2d(w: Witness, x: torch.Tensor, output_size: Any) -> torch.Tensor:
    down, along = _pair(output_size)
    if x.shape[-2] % down or x.shape[-1] % along:
        raise UsageError(
            f"adaptive_avg_pool2d from {list(x.shape[-2:])} to {[down, along]} has no exact twin",
            hint="the output's size must divide the input's",
        )
    return avg_pool2d(w, x, (x.shape[-2] // down, x.shape[-1] // along))


@twin("elu")
def elu(w: Witness, x: torch.Tensor, alpha: float = 1.0, inplace: bool = False) -> torch.Tensor:  # noqa: ARG001
    _only("elu", alpha=(alpha, 1.0))
    return e.Elementwise.apply(x, e.elu)  # type: ignore[no-untyped-call, no-any-return]


@twin("tanh")
def tanh(w: Witness, x: torch.Tensor) -> torch.Tensor:  # noqa: ARG001
    return e.Elementwise.apply(x, e.with_tanh)  # type: ignore[no-untyped-call, no-any-return]


@twin("sigmoid")
def sigmoid(w: Witness, x: torch.Tensor) -> torch.Tensor:  # noqa: ARG001
    return e.Elementwise.apply(x, e.with_sigmoid)  # type: ignore[no-untyped-call, no-any-return]


@twin("gelu")
def gelu(w: Witness, x: torch.Tensor, approximate: str = "none") -> torch.Tensor:  # noqa: ARG001
    _only("gelu", approximate=(approximate, "tanh"))
    return e.Elementwise.apply(x, e.gelu)  # type: ignore[no-untyped-call, no-any-return]


@twin("dropout")
def dropout(
    w: Witness, x: torch.Tensor, p: float = 0.5, training: bool = True, inplace: bool = False  # noqa: ARG001
) -> torch.Tensor:  # fmt: skip
    return x * mask(x, p, w) if training and p else x


@twin("embedding")
def embedding(
    w: Witness, ids: torch.Tensor, table: torch.Tensor, padding_idx: int | None = None, max_norm: float | None = None,
    norm_type: float = 2.0, scale_grad_by_freq: bool = False, sparse: bool = False,  # noqa: ARG001
) -> torch.Tensor:  # fmt: skip
    _only("embedding", max_norm=(max_norm, None), scale_grad_by_freq=(scale_grad_by_freq, False))
    padding = None if padding_idx is None or padding_idx == -1 else padding_idx
    return Embedding.apply(ids, table, padding, w)  # type: ignore[no-untyped-call, no-any-return]


@twin("softmax")
def softmax(w: Witness, x: torch.Tensor, dim: int | None = None, **settings: Any) -> torch.Tensor:
    _only("softmax", dtype=(settings.get("dtype"), None))
    if dim is None:
        raise UsageError("softmax without a dimension has no exact twin", hint="name the dimension")
    return Softmax.apply(x, dim % x.dim(), w)  # type: ignore[no-untyped-call, no-any-return]


@twin("layer_norm")
def layer_norm(
    w: Witness, x: torch.Tensor, normalized_shape: Sequence[int], weight: torch.Tensor | None = None,
    bias: torch.Tensor | None = None, eps: float = 1e-5, *_: Any,
) -> torch.Tensor:  # fmt: skip
    over = tuple(range(x.dim() - len(normalized_shape), x.dim()))
    out, _, _ = Normalise.apply(x, over, eps, w)  # type: ignore[no-untyped-call]
    out = out if weight is None else multiply(w, out, weight)
    return out if bias is None else add(w, out, bias)


@twin("batch_norm")
def batch_norm(
    w: Witness, x: torch.Tensor, running_mean: torch.Tensor | None, running_var: torch.Tensor | None,
    weight: torch.Tensor | None = None, bias: torch.Tensor | None = None, training: bool = False,
    momentum: float = 0.1, eps: float = 1e-5, *_: Any,
) -> torch.Tensor:  # fmt: skip
    shape, over = (1, -1, *[1] * (x.dim() - 2)), (0, *range(2, x.dim()))
    if training:
        out, middle, variance = Normalise.apply(x, over, eps, w)  # type: ignore[no-untyped-call]
        count = x.numel() // x.shape[1]
        for running, now in ((running_mean, middle), (running_var, variance * (count / (count - 1)))):
            if running is not None:
                running.mul_(1 - momentum).add_(now.reshape(-1) * momentum)
    else:
        assert running_mean is not None
        assert running_var is not None
        scale = torch.ones_like(running_var) / (running_var + eps).sqrt()
        out = multiply(w, add(w, x, -running_mean.view(shape)), scale.view(shape))
    out = out if weight is None else multiply(w, out, weight.view(shape))
    return out if bias is None else add(w, out, bias.view(shape))


@twin("mean")
def mean(w: Witness, x: torch.Tensor, dim: Any = None, keepdim: bool = False, *, total: bool = False) -> torch.Tensor:
    over = (
        tuple(range(x.dim())) if dim is None else tuple(d % x.dim() for d in ([dim] if isinstance(dim, int) else dim))
    )
    found: torch.Tensor = e.Mean.apply(x, over, total, w)  # type: ignore[no-untyped-call]
    return found if keepdim else found.squeeze(over)


@twin("sum")
def total(w: Witness, x: torch.Tensor, dim: Any = None, keepdim: bool = False) -> torch.Tensor:
    return mean(w, x, dim, keepdim, total=True)


@twin("add", "__add__", "__radd__", "add_", "__iadd__")
def add(w: Witness, a: Any, b: Any, *, alpha: float = 1) -> torch.Tensor:
    _only("add", alpha=(alpha, 1))
    return _combined(w, a, b, "add")


@twin("sub", "__sub__")
def subtract(w: Witness, a: Any, b: Any, *, alpha: float = 1) -> torch.Tensor:
    _only("sub", alpha=(alpha, 1))
    return _combined(w, a, b, "sub")


@twin("mul", "__mul__", "__rmul__")
def multiply(w: Witness, a: Any, b: Any) -> torch.Tensor:
    return _combined(w, a, b, "mul")


@twin("div", "__truediv__", "true_divide")
def divide(w: Witness, a: Any, b: Any) -> torch.Tensor:
    """By a number: times its reciprocal, since devices differ in how they divide by one."""
    if isinstance(b, torch.Tensor):
        raise UsageError("a division of tensors has no exact twin", hint="only numbers may divide")
    return _combined(w, a, 1 / b, "mul")


def _combined(w: Witness, a: Any, b: Any, operation: str) -> torch.Tensor:
    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor) and a.shape != b.shape:
        return e.Broadcast.apply(a, b, operation, w)  # type: ignore[no-untyped-call, no-any-return]
    if operation == "mul":
        return torch.mul(a, b)
    return torch.sub(a, b) if operation == "sub" else torch.add(a, b)


@twin("cross_entropy")
def cross_entropy(
    w: Witness, logits: torch.Tensor, labels: torch.Tensor, weight: torch.Tensor | None = None,
    size_average: Any = None, ignore_index: int = -100, reduce: Any = None, reduction: str = "mean",  # noqa: ARG001
    label_smoothing: float = 0.0,
) -> torch.Tensor:  # fmt: skip
    _only(
        "cross_entropy", weight=(weight, None), reduction=(reduction, "mean"), label_smoothing=(label_smoothing, 0.0)
    )
    _only("cross_entropy", **{"logits' dimensions": (logits.dim(), 2), "labels": (labels.dtype, torch.int64)})
    return CrossEntropy.apply(logits, labels, w)  # type: ignore[no-untyped-call, no-any-return]


@twin("binary_cross_entropy_with_logits")
def binary_cross_entropy_with_logits(
    w: Witness, logits: torch.Tensor, labels: torch.Tensor, weight: torch.Tensor | None = None,
    size_average: Any = None, reduce: Any = None, reduction: str = "mean", pos_weight: torch.Tensor | None = None,  # noqa: ARG001
) -> torch.Tensor:  # fmt: skip
    _only("binary_cross_entropy_with_logits", weight=(weight, None), reduction=(reduction, "mean"))
    _only("binary_cross_entropy_with_logits", pos_weight=(pos_weight, None), shape=(labels.shape, logits.shape))
    return BinaryCrossEntropy.apply(logits, labels, w)  # type: ignore[no-untyped-call, no-any-return]

"""arithmetic: while it is in force, PyTorch's functions compute exactly, or refuse.

A model's forward pass calls functions such as `linear` or `relu`, by itself or through its modules. Under this mode
each call is looked up by name: what has an exact twin goes there; what only moves or selects elements passes;
everything else raises. The backward pass needs no mode: every twin brings its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from trainwitness.core.errors import UsageError
from trainwitness.training.exact.attention import TWINS
from trainwitness.training.exact.witness import Witness

PASSING = frozenset({
    "__get__", "__set__", "__len__", "__getitem__", "__bool__", "__repr__", "__hash__", "size", "dim", "numel",
    "stride", "storage_offset", "data_ptr", "element_size", "is_floating_point", "is_complex", "is_nested", "item",
    "tolist", "view", "view_as", "reshape", "flatten", "unflatten", "squeeze", "unsqueeze", "transpose", "permute",
    "t", "swapaxes", "movedim", "contiguous", "clone", "detach", "chunk", "split", "unbind", "narrow", "select",
    "cat", "stack", "zeros_like", "ones_like", "requires_grad_", "register_hook", "backward", "relu", "relu_", "neg",
    "__neg__", "maximum", "lt", "le", "gt", "ge", "eq", "ne", "__lt__", "__gt__", "__eq__", "argmax",
})  # fmt: skip
"""Functions that round nothing: they move, select or describe elements, and so do their gradients."""
_CASTS = frozenset({"to", "double", "type", "float", "type_as"})
_NO_GRADIENT_SUM = (int, slice, type(None), type(...))


class arithmetic(TorchFunctionMode):
    """Exact arithmetic for the forward pass and the loss.

    >>> with arithmetic() as witness:                                            # doctest: +SKIP
    ...     loss = F.cross_entropy(model(inputs), labels)
    >>> loss.backward()                                                          # doctest: +SKIP
    >>> witness.check()             # raises if a value was too large            # doctest: +SKIP
    """

    def __init__(self, witness: Witness | None = None) -> None:
        super().__init__()
        self.witness = witness or Witness()

    def __enter__(self) -> Witness:
        super().__enter__()  # type: ignore[no-untyped-call]
        return self.witness

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        with torch._C.DisableTorchFunction():  # what happens inside is ours, also where modes are nested
            return self._called(func, getattr(func, "__name__", str(func)), args, kwargs or {})

    def _called(self, func: Callable[..., Any], name: str, args: Any, kwargs: dict[str, Any]) -> Any:
        twin = TWINS.get(name)
        if not _has_floats((*args, *kwargs.values())):
            return func(*args, **kwargs)
        if twin is not None:
            return twin(self.witness, *args, **kwargs)
        if name == "__getitem__" and not _is_plain(args[1]):
            raise refused("indexing with a tensor", "its gradient adds up in no fixed order; use nn.Embedding")
        if name in _CASTS:
            return _cast(func, args, kwargs)
        if name in PASSING:
            return func(*args, **kwargs)
        raise refused(f"torch function {name}", "see docs/exact-arithmetic.md for the list")


def refused(what: str, hint: str) -> UsageError:
    """The one error for what exact arithmetic cannot do."""
    return UsageError(f"{what} has no exact twin", hint=hint)


def _has_floats(values: Iterable[Any]) -> bool:
    for value in values:
        if isinstance(value, torch.Tensor) and value.is_floating_point():
            return True
        if isinstance(value, (tuple, list)) and _has_floats(value):
            return True
    return False


def _is_plain(index: Any) -> bool:
    parts = index if isinstance(index, tuple) else (index,)
    return all(isinstance(part, _NO_GRADIENT_SUM) for part in parts)


def _cast(func: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> Any:
    found = func(*args, **kwargs)
    if found.is_floating_point() and found.dtype != torch.float64:
        raise refused(f"a cast to {found.dtype}", "exact tensors are float64 throughout")
    return found

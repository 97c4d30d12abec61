"""Bit-exact training: the same parameters, to the last bit, on every machine. docs/exact-arithmetic.md."""

from trainwitness.training.exact.arithmetic import arithmetic
from trainwitness.training.exact.convert import ExactModule, convert, unsupported
from trainwitness.training.exact.optimisers import ExactAdam, ExactSGD, exact_optimizer
from trainwitness.training.exact.witness import ExactOverflow, Witness

__all__ = [
    "ExactAdam",
    "ExactModule",
    "ExactOverflow",
    "ExactSGD",
    "Witness",
    "arithmetic",
    "convert",
    "exact_optimizer",
    "unsupported",
]

"""Proof of what a model was trained on, and an honest account of when such a proof can be forged.

Names are imported when first used, so that `trainwitness --help` does not wait for PyTorch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from trainwitness.core.version import version as _version

if TYPE_CHECKING:
    from trainwitness.commitments.commitment import Commitment, Committed, bound_seed, commit, read_commitment
    from trainwitness.core.batch import Batch
    from trainwitness.core.environment import Environment
    from trainwitness.core.errors import TrainwitnessError
    from trainwitness.core.numerics import Numerics
    from trainwitness.core.state import State
    from trainwitness.core.verdict import Threshold, Verdict
    from trainwitness.tasks.dataset import Dataset
    from trainwitness.tasks.domain import FiniteReals, IntegerBox
    from trainwitness.tasks.registry import build_task
    from trainwitness.tasks.schedule import ShuffledEpochs
    from trainwitness.tasks.task import Task, TaskSpec
    from trainwitness.trace.pack import pack, unpack
    from trainwitness.trace.reader import Trace
    from trainwitness.trace.record import record
    from trainwitness.trace.recorder import Recorder
    from trainwitness.training import exact
    from trainwitness.training.stepper import Stepper
    from trainwitness.verification.calibration import Calibration, calibrate, load_calibration
    from trainwitness.verification.diff import diff
    from trainwitness.verification.sampling import Sampling
    from trainwitness.verification.verify import verify

_HOMES = {
    "Batch": "core.batch",
    "Calibration": "verification.calibration",
    "Commitment": "commitments.commitment",
    "Committed": "commitments.commitment",
    "Dataset": "tasks.dataset",
    "Environment": "core.environment",
    "FiniteReals": "tasks.domain",
    "IntegerBox": "tasks.domain",
    "Numerics": "core.numerics",
    "Recorder": "trace.recorder",
    "Sampling": "verification.sampling",
    "ShuffledEpochs": "tasks.schedule",
    "State": "core.state",
    "Stepper": "training.stepper",
    "Task": "tasks.task",
    "TaskSpec": "tasks.task",
    "Threshold": "core.verdict",
    "Trace": "trace.reader",
    "TrainwitnessError": "core.errors",
    "Verdict": "core.verdict",
    "bound_seed": "commitments.commitment",
    "build_task": "tasks.registry",
    "calibrate": "verification.calibration",
    "commit": "commitments.commitment",
    "diff": "verification.diff",
    "exact": "training.exact",
    "load_calibration": "verification.calibration",
    "pack": "trace.pack",
    "read_commitment": "commitments.commitment",
    "record": "trace.record",
    "unpack": "trace.pack",
    "verify": "verification.verify",
}

__version__ = _version()
__all__ = [
    "Batch",
    "Calibration",
    "Commitment",
    "Committed",
    "Dataset",
    "Environment",
    "FiniteReals",
    "IntegerBox",
    "Numerics",
    "Recorder",
    "Sampling",
    "ShuffledEpochs",
    "State",
    "Stepper",
    "Task",
    "TaskSpec",
    "Threshold",
    "Trace",
    "TrainwitnessError",
    "Verdict",
    "bound_seed",
    "build_task",
    "calibrate",
    "commit",
    "diff",
    "exact",
    "load_calibration",
    "pack",
    "read_commitment",
    "record",
    "unpack",
    "verify",
]


def __getattr__(name: str) -> Any:
    if name == "exact":
        return importlib.import_module("trainwitness.training.exact")
    if name not in _HOMES:
        raise AttributeError(f"module 'trainwitness' has no attribute {name!r}")
    return getattr(importlib.import_module(f"trainwitness.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)

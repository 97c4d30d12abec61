"""Traces to be altered at will, for tests that play the owner who lies."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn

from trainwitness import State, Threshold, Trace, Verdict
from trainwitness.trace.format import Manifest, StepRecord
from trainwitness.trace.rewrite import write_trace

EPS = Threshold(value=1e-6)
MOMENTUM = {"optimizer": lambda p, lr: torch.optim.SGD(p, lr=lr, momentum=0.9)}
ADAM = {"optimizer": lambda p, lr: torch.optim.Adam(p, lr=lr)}


def normed() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Dropout(0.2), nn.Linear(6, 3))


NORMED = {"model": normed, "initialisation": "torch"}


class Forgery:
    """A trace in memory, to be altered at will and written with every digest fitting."""

    def __init__(self, path: Path) -> None:
        trace = Trace.open(path)
        segments = list(trace.segments())
        self.manifest: Manifest = trace.manifest
        self.states = [trace.initial_state().clone(), *(segment.after.clone() for segment in segments)]
        self.records: list[StepRecord] = [segment.records[0] for segment in segments]

    def write(self, folder: Path) -> Path:
        write_trace(folder, self.manifest, self.states[0], zip(self.records, self.states[1:], strict=True))
        return folder

    def set(self, number: int, name: str, tensor: torch.Tensor) -> None:
        self.states[number] = State({**self.states[number].tensors, name: tensor})


def standings(verdict: Verdict) -> dict[str, str]:
    return {name: found.standing for name, found in verdict.properties.items()}

"""What a trace weighs: bytes per step against the raw bytes, and against torch.save.

python -m benchmarks.trace_size [--data DIR] [--quick]
"""

from __future__ import annotations

import argparse
import io
import tempfile
from pathlib import Path

import torch

from benchmarks.side_by_side import table
from trainwitness import TaskSpec, Trace, build_task, record

CASES = [
    ("fcn-adult", 0.0, 1000),
    ("lenet-mnist", 0.0, 1000),
    ("lenet-mnist", 0.9, 1000),
    ("transformer-imdb", 0.0, 128),
    ("vggmini-cifar10", 0.0, 128),
    ("vggmini-cifar10", 0.9, 128),
]


def measure(name: str, momentum: float, steps: int, data: Path | None) -> list[str]:
    spec = TaskSpec(name=name, options={"batch_size": 100, "learning_rate": 0.01, "momentum": momentum})
    with tempfile.TemporaryDirectory() as folder:
        record(build_task(spec, data=data), Path(folder) / "t", steps=steps)
        trace = Trace.open(Path(folder) / "t")
        checked = trace.check()
        saved = io.BytesIO()
        torch.save(dict(trace.final_state().tensors), saved)
    per_step = checked.stored_bytes / steps
    return [
        name,
        f"{momentum}",
        str(steps),
        f"{per_step / 1e3:.1f}",
        f"{per_step / checked.parameter_bytes:.3f}",
        f"**{per_step / checked.state_bytes:.3f}**",
        f"{len(saved.getvalue()) / checked.state_bytes:.3f}",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=None)
    parser.add_argument("--quick", action="store_true", help="lenet-digits only, no data needed")
    arguments = parser.parse_args()
    cases = [("lenet-digits", 0.0, 100)] if arguments.quick else CASES
    header = [
        "task",
        "momentum",
        "steps",
        "kB/step",
        "of parameter bytes",
        "of State bytes",
        "torch.save, of State bytes",
    ]
    print(table(header, [measure(*case, arguments.data) for case in cases]))


if __name__ == "__main__":
    main()

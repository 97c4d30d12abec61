"""Environment: on what machine and software, and from which revision of the code, something was computed."""

from __future__ import annotations

import functools
import platform
import subprocess
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from trainwitness.core.version import version


class CodeRevision(BaseModel):
    """The git revision of the folder the run was started in, and whether files there differed from it."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    revision: str | None = None
    dirty: bool | None = None


class Environment(BaseModel):
    """Facts that explain numerical differences. No host name, user name or path."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    trainwitness: str
    python: str
    torch: str
    numpy: str
    system: str
    processor: str
    cores: int
    cpu_capability: str
    blas: str
    gpu: str | None = None
    cuda: str | None = None
    code: CodeRevision = CodeRevision()


@functools.lru_cache(maxsize=2)
def current_environment(*, code: bool = False) -> Environment:
    """This machine's Environment. With `code`, git is asked about the current folder.

    Asking git can run programs that the folder's own git settings name, so verbs that only read a trace do not.
    """
    import os

    import numpy
    import torch

    cuda = torch.cuda.is_available()
    return Environment(
        trainwitness=version(),
        python=platform.python_version(),
        torch=str(torch.__version__),
        numpy=numpy.__version__,
        system=f"{platform.system()} {platform.machine()}",
        processor=_processor(),
        cores=os.cpu_count() or 1,
        cpu_capability=torch.backends.cpu.get_cpu_capability(),
        blas="mkl" if torch._C.has_mkl else "other",
        gpu=torch.cuda.get_device_name() if cuda else None,
        cuda=str(torch.version.cuda) if cuda else None,
        code=code_revision(Path.cwd()) if code else CodeRevision(),
    )


def code_revision(folder: Path) -> CodeRevision:
    """The git revision checked out in `folder`; empty outside a checkout or without git."""
    head = _git(folder, "rev-parse", "--verify", "HEAD")
    if head is None:
        return CodeRevision()
    changes = _git(folder, "status", "--porcelain")
    return CodeRevision(revision=head, dirty=None if changes is None else bool(changes))


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-c", "core.fsmonitor=false", "-C", str(folder), *arguments],
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()

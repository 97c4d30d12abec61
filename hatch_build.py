"""Writes the git revision into wheels and source archives, so that `trainwitness --version` can name it."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

NAME = "revision.txt"
PLACES = {"wheel": f"trainwitness/{NAME}", "sdist": NAME}


class Revision(BuildHookInterface):  # type: ignore[type-arg]
    """A source archive has no git: it carries what was written when it was made."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        found = self._revision()
        if version == "editable" or found is None:
            return
        written = Path(self.directory) / NAME
        written.parent.mkdir(parents=True, exist_ok=True)
        written.write_text(found + "\n", encoding="utf-8")
        build_data["force_include"][str(written)] = PLACES[self.target_name]

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        (Path(self.directory) / NAME).unlink(missing_ok=True)

    def _revision(self) -> str | None:
        carried = Path(self.root) / NAME
        if carried.is_file():
            return carried.read_text(encoding="utf-8").strip()
        command = ["git", "-C", self.root, "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
        try:
            return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
        except (OSError, subprocess.CalledProcessError):
            return None

"""Rules of the house that no single module can check."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import trainwitness

SOURCE = Path(trainwitness.__file__).parent
ROOMS = (
    "core", "tasks", "commitments", "training", "trace", "verification", "forging", "leakage", "attestation",
    "audit", "experiments", "report", "cli",
)  # fmt: skip
MODULES = sorted(SOURCE.rglob("*.py"))


def imported_modules(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, f"{path}: relative import"
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_a_module_imports_only_from_its_own_room_and_rooms_above(path: Path) -> None:
    room = path.relative_to(SOURCE).parts[0]
    if room == "__init__.py":
        return
    for module in imported_modules(path):
        parts = module.split(".")
        if parts[0] == "trainwitness" and len(parts) > 1 and parts[1] in ROOMS:
            assert ROOMS.index(parts[1]) <= ROOMS.index(room), f"{path} imports {module}"


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_nothing_unpickles(path: Path) -> None:
    assert not imported_modules(path) & {"pickle", "dill", "joblib", "cloudpickle", "shelve", "marshal"}
    calls = {ast.unparse(node.func) for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)}
    assert not calls & {"torch.load", "eval", "exec", "__import__"}


def test_every_public_name_can_be_imported() -> None:
    for name in trainwitness.__all__:
        assert getattr(trainwitness, name) is not None
    assert sorted(trainwitness._HOMES) == sorted(trainwitness.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        trainwitness.nonsense  # noqa: B018


def test_help_does_not_import_torch() -> None:
    code = (
        "import sys\nsys.argv = ['trainwitness', '--help']\nfrom trainwitness.cli.main import main\n"
        "try: main()\nexcept SystemExit: pass\n"
        "assert not {'torch', 'numpy', 'sklearn', 'pydantic'} & set(sys.modules), sorted(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)

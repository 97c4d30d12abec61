"""A wheel in an empty environment, with the core dependencies only: what a stranger installs."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[1]
EXTRAS = ("plotly", "playwright", "mkdocs", "pytest", "hypothesis")


def call(*command: str | Path, cwd: Path, code: int = 0) -> str:
    clean = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "TRAINWITNESS_DATA")}
    done = subprocess.run([*map(str, command)], cwd=cwd, env=clean, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("dist")
    call(sys.executable, "-m", "build", "--no-isolation", "--outdir", out, ROOT, cwd=out)
    return next(out.glob("*.whl"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The scripts folder of an environment with the wheel and what it depends on."""
    folder = tmp_path_factory.mktemp("empty")
    venv.create(folder, with_pip=True)
    call(folder / "bin" / "pip", "install", "--quiet", "-c", ROOT / "constraints.txt", wheel, cwd=folder)
    return folder / "bin"


def test_a_wheel_has_the_page_the_licence_and_no_tests(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert "trainwitness/report/assets/page.html.j2" in names
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert not any(name.startswith(("tests/", "benchmarks/", "docs/")) for name in names)
    revision = zipfile.ZipFile(wheel).read("trainwitness/revision.txt").decode()
    assert len(revision.strip()) >= 7


def test_a_stranger_succeeds(installed: Path, tmp_path: Path) -> None:
    trainwitness = installed / "trainwitness"
    assert "(revision " in call(trainwitness, "--version", cwd=tmp_path)
    call(trainwitness, "record", "softmax-digits", "--out", "run.trace", "--steps", "20", cwd=tmp_path)
    out = call(trainwitness, "verify", "run.trace", "--json", "v.json", cwd=tmp_path)
    assert out.startswith("ACCEPT")
    call(trainwitness, "inspect", "run.trace", cwd=tmp_path)
    assert "lenet-digits" in call(trainwitness, "tasks", cwd=tmp_path)
    missing = call(trainwitness, "report", "v.json", cwd=tmp_path, code=2)
    assert "pip install 'trainwitness[report]'" in missing


def test_only_the_core_dependencies_are_there(installed: Path, tmp_path: Path) -> None:
    code = f"import importlib.util as u; print([name for name in {EXTRAS} if u.find_spec(name)])"
    assert call(installed / "python", "-c", code, cwd=tmp_path) == "[]\n"


def test_every_module_imports_without_the_extras(installed: Path, tmp_path: Path) -> None:
    code = (
        "import importlib, pkgutil, trainwitness\n"
        "for found in pkgutil.walk_packages(trainwitness.__path__, 'trainwitness.'):\n"
        "    try: importlib.import_module(found.name)\n"
        "    except ModuleNotFoundError as error: print(found.name, error.name)\n"
    )
    missing = dict(line.split() for line in call(installed / "python", "-c", code, cwd=tmp_path).splitlines())
    assert missing == {"trainwitness.report.page": "plotly"}

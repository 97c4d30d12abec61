"""certificate, and DP-SGD options, as a user types them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.test_cli import envelope, run


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("certificate")
    options = ("--set", "clip=1.0", "--set", "noise=0.5")
    run("record", "mlp-digits", "--out", "run.trace", "--steps", "3", *options, cwd=made)
    return made


def test_a_private_run_is_verified(folder: Path) -> None:
    out, _ = run("verify", "run.trace", cwd=folder)
    assert out.startswith("ACCEPT")


def test_a_pool_is_certified_and_what_is_not_covered_is_said(folder: Path) -> None:
    out, _ = run("certificate", "run.trace", "--step", "1", "--pool", "200", "--json", "c.json", cwd=folder)
    assert out.startswith("CERTIFIED: rank 200 of 200 over GF(2)")
    assert "not covered: examples that are not in the pool" in out
    result = envelope((folder / "c.json").read_text(), "certificate")
    assert result["holds"] is True
    assert result["examples"] == result["rank"] == 200


def test_too_coarse_a_fixed_point_certifies_nothing(folder: Path) -> None:
    """With one fractional bit hardly a gradient has a last bit that differs from its sign."""
    out, _ = run("certificate", "run.trace", "--pool", "1400", "--bits", "1", cwd=folder, code=1)
    assert out.startswith("NOT CERTIFIED")
    assert "says nothing either way" in out


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["certificate", "run.trace", "--step", "3"], 2, "step 3"),
        (["certificate", "run.trace", "--pool", "99"], 2, "a pool of 99"),
        (["certificate", "absent.trace"], 3, "absent.trace"),
        (["record", "mlp-digits", "--out", "x", "--set", "noise=1.0"], 2, "clip=0.0 with noise=1.0"),
        (["record", "mlp-digits", "--out", "x", "--set", "clip=1.0", "--precision", "bfloat16"], 2, "mixed"),
    ],
)
def test_bad_input(folder: Path, arguments: list[str], code: int, message: str) -> None:
    _, err = run(*arguments, cwd=folder, code=code)
    assert message in err
    assert not (folder / "x").exists()

"""Every verb with bad input: one sentence, a hint, the right exit code, and never a traceback."""

from __future__ import annotations

import builtins
import errno
import io
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import typer

from tests.cli.test_cli import run
from trainwitness.cli.main import app
from trainwitness.cli.output import Output

COMMANDS = typer.main.get_command(app).commands  # type: ignore[attr-defined]
VERBS = sorted(COMMANDS)

USES_EXTRAS = ("trainwitness.report.page", "trainwitness.attestation", "trainwitness.forging.reduction")
TABLE = """
3 | verify absent                                          | no such trace              | packed trace
3 | verify folder                                          | not a trace                | trace folder
3 | verify empty                                           | not a packed trace         | get the trace again
3 | verify corrupt.trace                                   | offset                     | get the trace again
3 | verify run.trace --task lenet-digits                   | the trace is of task       | check --task
2 | verify run.trace --require truth                       | unknown property           | reproduced
3 | verify run.trace --model folder                        | safetensors                | save_file
3 | verify run.trace --calibration folder                  | Is a directory             | trainwitness calibrate
3 | verify run.trace --calibration empty                   | not a calibration          | trainwitness calibrate
3 | verify run.trace --json folder                         | Is a directory             | may you write
3 | verify run.trace --json readonly/v.json                | Read-only file system      | may you write
3 | calibrate folder --out x.json                          | not a trace                | trace folder
2 | calibrate absent --out x.json                          | unknown task               | built-in tasks
3 | calibrate lenet-mnist --out x.json                     | no data folder             | TRAINWITNESS_DATA
3 | calibrate softmax-digits --steps 2 --out readonly/x    | Read-only file system      | may you write
3 | forge absent --step 1 --fraction 1 --out f             | no such trace              | packed trace
3 | forge corrupt.trace --step 1 --fraction 1 --out f      | offset                     | get the trace again
3 | forge run.trace --step 1 --fraction 1 --task x --out f | the trace is of task       | check --task
3 | forge run.trace --step 1 --fraction 1 --out folder     | is there already           | --out
2 | forge run.trace --out f                                | which steps?               | --step
2 | play nonsense --threshold 1                            | unknown task               | built-in tasks
3 | play lenet-mnist --threshold 1                         | no data folder             | TRAINWITNESS_DATA
3 | play softmax-digits --calibration absent               | cannot be read             | trainwitness calibrate
2 | play softmax-digits                                    | what does the verifier     | --threshold
2 | leak nonsense                                          | unknown task               | built-in tasks
3 | leak lenet-mnist                                       | no data folder             | TRAINWITNESS_DATA
2 | leak softmax-digits --stage late                       | unknown stage              | untrained
2 | leak softmax-digits --defence magic                    | unknown defence            | gaussian
3 | leak softmax-digits --gradient absent                  | cannot be read             | safetensors file
3 | leak softmax-digits --gradient empty                   | cannot be read             | safetensors file
3 | diff absent run.trace                                  | no such trace              | packed trace
3 | diff run.trace folder                                  | not a trace                | trace folder
3 | diff run.trace corrupt.trace                           | offset                     | get the trace again
3 | inspect absent                                         | no such trace              | packed trace
3 | inspect folder                                         | not a trace                | trace folder
3 | inspect empty                                          | not a packed trace         | get the trace again
3 | inspect corrupt.trace                                  | offset                     | get the trace again
3 | pack absent --out p                                    | no such trace              | packed trace
3 | pack corrupt.trace --out p                             | offset                     | get the trace again
3 | pack run.trace --out folder                            | already exists             | another name
3 | pack run.trace --out readonly/p                        | Read-only file system      | name another place
3 | unpack empty --out q                                   | not a packed trace         | get the trace again
3 | unpack folder --out q                                  | not a trace                | trace folder
3 | unpack run.zip --out readonly/q                        | Read-only file system      | name another place
2 | record nonsense --out t                                | unknown task               | built-in tasks
3 | record lenet-mnist --out t                             | no data folder             | TRAINWITNESS_DATA
3 | record lenet-mnist --out t --data absent               | not a folder               | check --data
3 | record softmax-digits --steps 2 --out empty            | File exists                | name another place
3 | record softmax-digits --steps 2 --out readonly/t       | Read-only file system      | name another place
2 | reproduce fig-99                                       | unknown experiment         | experiments:
3 | reproduce shuffle                                      | no data folder             | TRAINWITNESS_DATA
3 | reproduce shuffle --data absent                        | not a folder               | check --data
2 | reproduce --summary empty                              | not a folder               | results
3 | reproduce --all --quick --out empty                    | File exists                | another place
3 | reproduce --all --quick --out readonly/all             | Read-only file system      | another place
3 | report absent                                          | no such file               | --json
3 | report folder                                          | a folder                   | --json
3 | report empty                                           | not JSON                   | --json
3 | report run.trace/manifest.json                         | not a result               | --json
3 | report tasks.json --out readonly/r.html                | Read-only file system      | another place
3 | demo --out empty                                       | is not a demo              | --out
3 | demo --out run.trace                                   | is not a demo              | --out
3 | tasks --json readonly/t.json                           | Read-only file system      | may you write
3 | forgeability folder                                    | not a trace                | trace folder
3 | forgeability corrupt.trace --step 1                    | offset                     | get the trace again
3 | forgeability lenet-mnist                               | no data folder             | TRAINWITNESS_DATA
3 | forgeability softmax-digits --calibration absent       | cannot be read             | trainwitness calibrate
2 | forgeability run.trace --step 99                       | the trace has steps        | --help
3 | claim absent --example x.npy                           | no such trace              | packed trace
3 | claim run.trace --example absent                       | not an example             | numpy.save
3 | claim run.trace --example folder                       | not an example             | numpy.save
3 | claim run.trace --example empty                        | not an example             | numpy.save
3 | claim run.trace --example run.zip                      | not an example             | numpy.save
3 | certificate absent                                     | no such trace              | packed trace
3 | certificate corrupt.trace                              | offset                     | get the trace again
3 | certificate run.trace --task x                         | the trace is of task       | check --task
2 | certificate run.trace --pool 5                         | a pool of 5                | between the two
2 | commit nonsense --out c                                | unknown task               | built-in tasks
3 | commit lenet-mnist --out c                             | no data folder             | TRAINWITNESS_DATA
3 | commit softmax-digits --out folder                     | is there already           | another place
3 | commit softmax-digits --out readonly/c                 | Read-only file system      | another place
3 | commit softmax-digits --out c --secret absent          | No such file               | is the name right?
2 | row softmax-digits --index 99999 --out r               | fewer rows                 | --help
3 | row softmax-digits --index 0 --out empty               | is there already           | another place
3 | row softmax-digits --index 0 --out readonly/r          | Read-only file system      | another place
3 | prove-member absent softmax-digits --index 0 --out p   | No such file               | is the name right?
3 | prove-member folder softmax-digits --index 0 --out p   | Is a directory             | is the name right?
3 | prove-member empty softmax-digits --index 0 --out p    | truncated                  | as trainwitness wrote it
3 | prove-absent x nonsense --row y --secret z --out p     | No such file               | is the name right?
3 | check-proof absent --commitment empty                  | No such file               | is the name right?
3 | check-proof empty --commitment empty                   | truncated                  | as trainwitness wrote it
3 | key --out empty                                        | is there already           | another place
3 | key --out readonly/k                                   | Read-only file system      | another place
3 | timestamp absent --tsa http://x --out t.tsr            | No such file               | is the name right?
2 | timestamp empty --tsa ftp://x --out t.tsr              | not the address            | http
3 | attest run.trace --model m --key absent --out a        | No such file               | is the name right?
3 | attest run.trace --model m --key empty --out a         | others can read            | chmod 600
3 | check absent --key absent                              | No such file               | is the name right?
3 | check empty --key empty                                | neither a public key       | as trainwitness wrote it
3 | verify run.trace --commitment folder                   | Is a directory             | is the name right?
2 | verify run.trace --nonce 12                            | speak of a commitment      | --commitment
2 | leak nonsense                                          | unknown task               | built-in tasks
3 | leak lenet-mnist                                       | no data folder             | TRAINWITNESS_DATA
3 | leak softmax-digits --gradient absent                  | No such file               | parameter names
2 | leak softmax-digits --defence nonsense                 | unknown defence            | gaussian
2 | leak softmax-digits --attack nonsense                  | unknown attack             | attacks:
2 | record softmax-digits --out t --nonce 12               | decide the seed together   | --commitment
"""


def table() -> list[tuple[int, str, str, str]]:
    rows = [[part.strip() for part in line.split("|")] for line in TABLE.strip().splitlines()]
    return [(int(code), command, message, hint) for code, command, message, hint in rows]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one good and one corrupt trace, an empty file, an empty folder, and a disk that is read-only."""
    folder = tmp_path_factory.mktemp("bad")
    run("record", "softmax-digits", "--out", "run.trace", "--steps", "3", cwd=folder)
    run("pack", "run.trace", "--out", "run.zip", cwd=folder)
    run("tasks", "--json", "tasks.json", cwd=folder)
    shutil.copytree(folder / "run.trace", folder / "corrupt.trace")
    chunk = folder / "corrupt.trace" / "chunk-000000.twc"
    content = bytearray(chunk.read_bytes())
    content[len(content) // 2] ^= 1
    chunk.write_bytes(content)
    (folder / "empty").touch()
    for name in ("folder", "readonly"):
        (folder / name).mkdir()
    return folder


@pytest.fixture
def read_only(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`readonly/` refuses what a read-only disk refuses. (Permissions would not stop a test that runs as root.)"""

    def refuse(path: Any) -> None:
        if isinstance(path, (str, os.PathLike)) and Path(path).absolute().is_relative_to(place / "readonly"):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))

    def guarded(function: Any, writes: Any) -> Any:
        def call(path: Any, *args: Any, **kwargs: Any) -> Any:
            if writes(*args, **kwargs):
                refuse(path)
            return function(path, *args, **kwargs)

        return call

    def for_writing(mode: str = "r", *_: Any, **__: Any) -> bool:
        return any(letter in mode for letter in "wax+")

    def flags_write(flags: int = 0, *_: Any, **__: Any) -> bool:
        return bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))

    opener = guarded(io.open, for_writing)
    monkeypatch.setattr(io, "open", opener)
    monkeypatch.setattr(builtins, "open", opener)
    monkeypatch.setattr(os, "open", guarded(os.open, flags_write))
    monkeypatch.setattr(os, "mkdir", guarded(os.mkdir, lambda *_, **__: True))


@pytest.mark.usefixtures("read_only")
@pytest.mark.parametrize(("code", "command", "message", "hint"), table(), ids=lambda value: str(value)[:60])
def test_bad_input(place: Path, code: int, command: str, message: str, hint: str) -> None:
    before = sorted(path.name for path in place.iterdir())
    _, err = run(*command.split(), cwd=place, code=code)
    words = " ".join(err.split())
    assert words.startswith("error: ")
    sentence, _, advice = words.partition("what to do:")
    assert message in sentence
    assert hint in advice
    assert "Traceback" not in err
    assert sorted(path.name for path in place.iterdir()) == before


def test_every_verb_is_in_the_table() -> None:
    assert {command.split()[0] for _, command, _, _ in table()} == set(VERBS)


@pytest.mark.parametrize("verb", VERBS)
def test_no_arguments_or_wrong_ones_are_2(verb: str, tmp_path: Path) -> None:
    _, err = run(verb, "--no-such-option", cwd=tmp_path, code=2)
    assert "No such option" in err
    if any(parameter.required for parameter in COMMANDS[verb].params):
        _, err = run(verb, cwd=tmp_path, code=2)
        assert "Missing" in err


def arguments(verb: str) -> Iterator[str]:
    """The shortest command line that a verb accepts."""
    for parameter in COMMANDS[verb].params:
        if parameter.required:
            yield from ([parameter.opts[0]] if parameter.param_type_name == "option" else [])
            yield "0"


@pytest.mark.parametrize("verb", VERBS)
def test_ctrl_c_is_130_and_one_word(verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Output, "__init__", interrupted)
    _, err = run(verb, *arguments(verb), cwd=tmp_path, code=130)
    assert err == "interrupted\n"


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has CUDA")
@pytest.mark.parametrize(
    "command",
    [
        "record softmax-digits --out t --steps 2 --device cuda",
        "calibrate softmax-digits --out c.json --device cuda",
        "verify run.trace --device cuda",
        "play softmax-digits --threshold 1 --device cuda",
        "leak softmax-digits --device cuda",
        "reproduce hardware --quick --device cuda",
    ],
)
def test_without_cuda(place: Path, command: str) -> None:
    _, err = run(*command.split(), cwd=place, code=2)
    assert "device 'cuda' cannot be used here" in err
    assert "use --device cpu" in err


@pytest.mark.parametrize(
    ("module", "command", "extra"),
    [
        ("plotly", "report tasks.json", "report"),
        ("cryptography", "key --out k", "attest"),
        ("fpylll", "forge run.trace --step 1 --fraction 1 --attack lattice --out f", "lattice"),
    ],
)
def test_without_an_extra(
    place: Path, monkeypatch: pytest.MonkeyPatch, module: str, command: str, extra: str
) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == module]:
        monkeypatch.delitem(sys.modules, name)
    for name in [name for name in sys.modules if name.startswith(USES_EXTRAS)]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, module, None)
    _, err = run(*command.split(), cwd=place, code=2)
    assert module in err.partition("not installed")[0]
    assert f"pip install 'trainwitness[{extra}]'" in err


@pytest.mark.parametrize("verb", VERBS)
def test_help_has_an_example(verb: str, tmp_path: Path) -> None:
    out, _ = run(verb, "--help", cwd=tmp_path)
    assert f"Example: trainwitness {verb}" in " ".join(out.split())

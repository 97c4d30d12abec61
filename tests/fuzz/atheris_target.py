"""Coverage-guided fuzzing of every parser of evidence (Linux; `pip install atheris`).

    python -m tests.fuzz.atheris_target --seconds 3600

The first byte chooses the parser. A crash stops it with the input that did it; otherwise libFuzzer's last line says
how many inputs were tried.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import atheris
import torch  # noqa: F401 - before instrumentation begins: only our own code is to be instrumented

with atheris.instrument_imports(include=["trainwitness"]):
    from tests.fuzz import parsers

NAMES = sorted(parsers.PARSERS)


def one_input(data: bytes) -> None:
    if data:
        parsers.try_parser(parsers.PARSERS[NAMES[data[0] % len(NAMES)]], data[1:])


def main() -> None:
    from tests.fuzz.seeds import seeds

    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--seconds", type=int, default=60)
    seconds = arguments.parse_args().seconds
    with tempfile.TemporaryDirectory() as folder:
        corpus = Path(folder) / "corpus"
        corpus.mkdir()
        for name, contents in seeds(Path(folder)).items():
            for number, content in enumerate(contents):
                first = bytes([NAMES.index(name)])
                (corpus / f"{NAMES.index(name)}-{number}").write_bytes(first + content)
        options = [f"-max_total_time={seconds}", "-max_len=16384", "-rss_limit_mb=4096", "-timeout=30"]
        atheris.Setup([sys.argv[0], *options, str(corpus)], one_input)
        atheris.Fuzz()


if __name__ == "__main__":
    main()

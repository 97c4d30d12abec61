"""Sampling: the exact guarantee, against brute force, scipy and simulation; and what it does not cover."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import hypergeom

from tests.conftest import tiny_task
from tests.verification.forgery import EPS, MOMENTUM, Forgery, standings
from trainwitness import State, Trace, record, verify
from trainwitness.core.errors import UsageError
from trainwitness.core.rates import exact_interval
from trainwitness.core.seeds import derive, permutation
from trainwitness.verification.sampling import LARGEST, Sampling, least_draws, miss_probability, plan


def test_the_miss_probability_is_that_of_all_draws() -> None:
    for spans, false, drawn in itertools.product(range(1, 8), range(8), range(8)):
        if false <= spans and drawn <= spans:
            draws = list(itertools.combinations(range(spans), drawn))
            missed = sum(all(number >= false for number in draw) for draw in draws)
            assert miss_probability(spans, false, drawn) == Fraction(missed, len(draws))


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 3000), st.data())
def test_the_draws_are_enough_and_one_fewer_is_not(spans: int, data: st.DataObject) -> None:
    false = data.draw(st.integers(1, spans))
    confidence = Fraction(data.draw(st.integers(1, 999)), 1000)
    count = least_draws(spans, false, confidence)
    assert miss_probability(spans, false, count) <= 1 - confidence
    assert count == 1 or miss_probability(spans, false, count - 1) > 1 - confidence
    assert float(miss_probability(spans, false, count)) == pytest.approx(
        hypergeom(spans, false, count).pmf(0), rel=1e-6, abs=1e-12
    )


def test_simulated_lies_are_caught_as_often_as_stated() -> None:
    """10,000 draws by our own generator, against lies placed independently of it."""
    spans, false, rng = 500, 25, np.random.default_rng(0)
    count = least_draws(spans, false, Fraction(95, 100))
    caught = 0
    for number in range(10_000):
        lies = set(rng.choice(spans, false, replace=False).tolist())
        drawn = permutation(derive(0, "sample", "root", str(number)), spans)[:count].tolist()
        caught += bool(lies & set(drawn))
    low, high = exact_interval(caught, 10_000, outside=1e-4)
    assert low <= 1 - float(miss_probability(spans, false, count)) <= high
    assert 1 - float(miss_probability(spans, false, count)) >= 0.95


def lying(path: Path, out: Path, steps: list[int]) -> Path:
    """A trace in which these steps name other rows than those that were used, with the States as they were."""
    forged = Forgery(path)
    for step in steps:
        rows = forged.records[step].rows[0]
        forged.records[step] = forged.records[step].model_copy(update={"rows": [[(row + 1) % 40 for row in rows]]})
    forged.manifest = forged.manifest.model_copy(update={"order": "loader", "task": None})
    return forged.write(out)


def test_whole_verifications_catch_lies_as_often_as_stated(tmp_path: Path) -> None:
    task = tiny_task()
    record(task, tmp_path / "t", steps=60)
    lies = lying(tmp_path / "t", tmp_path / "f", [11, 23, 35, 44, 52, 58])  # none among the largest updates
    largest = plan(Trace.open(lies), Sampling(0.1, 0.6, "n")).largest
    assert not largest & {11, 23, 35, 44, 52, 58}
    answers = [
        verify(lies, task=task, threshold=EPS, sampling=Sampling(0.1, 0.6, f"nonce {number}")).verdict
        for number in range(30)
    ]
    caught = answers.count("REJECT")
    expected = 1 - float(miss_probability(60, 6, least_draws(60, 6, Fraction(6, 10))))
    low, high = exact_interval(caught, len(answers), outside=1e-3)
    assert low <= expected <= high
    assert set(answers) == {"REJECT", "ACCEPT"}


def test_an_honest_trace_is_accepted_with_the_guarantee_in_words(tmp_path: Path) -> None:
    task = tiny_task()
    record(task, tmp_path / "t", steps=60)
    verdict = verify(tmp_path / "t", task=task, sampling=Sampling(0.1, 0.95))
    assert verdict.verdict == "ACCEPT"
    assert standings(verdict)["exact"] == "unknown"
    assert verdict.sample is not None
    count = least_draws(60, 6, Fraction(95, 100))
    assert len(verdict.sample["drawn"]) == count
    assert f"{count} of 60 steps were drawn" in verdict.reasons[0]
    assert len(verdict.steps) < 60
    again = verify(tmp_path / "t", task=task, sampling=Sampling(0.1, 0.95, verdict.sample["nonce"]))
    assert again.sample == verdict.sample
    assert math.isclose(verdict.sample["missed_probability"], hypergeom(60, 6, count).pmf(0))


def test_the_sample_depends_on_the_root_and_the_nonce(tmp_path: Path) -> None:
    task = tiny_task()
    record(task, tmp_path / "t", steps=60)
    changed = Trace.open(lying(tmp_path / "t", tmp_path / "f", [3]))
    draws = [plan(trace, Sampling(0.1, 0.9, nonce)).drawn
             for trace in (Trace.open(tmp_path / "t"), changed) for nonce in ("a", "b")]  # fmt: skip
    assert len(set(draws)) == 4


def test_a_splice_is_caught_however_small_the_sample(tmp_path: Path) -> None:
    """One false step of 60 would mostly be missed by a draw; it is the largest update of all."""
    task = tiny_task()
    record(task, tmp_path / "a", steps=60)
    record(tiny_task(model=lambda: torch.nn.Linear(4, 3), seed=1), tmp_path / "b", steps=60)
    spliced, other = Forgery(tmp_path / "a"), Forgery(tmp_path / "b")
    spliced.states[31:] = other.states[31:]
    spliced.records[30:] = [
        mine.model_copy(update={"rows": theirs.rows})
        for mine, theirs in zip(spliced.records[30:], other.records[30:], strict=True)
    ]
    path = spliced.write(tmp_path / "f")
    for number in range(5):
        verdict = verify(path, task=task, threshold=EPS, sampling=Sampling(0.9, 0.5, str(number)))
        assert verdict.verdict == "REJECT"
        assert "step 30" in " ".join(verdict.reasons)
        assert verdict.sample is not None
        assert len(verdict.sample["largest_updates"]) == LARGEST


def test_every_record_is_looked_at_even_outside_the_sample(tmp_path: Path) -> None:
    task = tiny_task()
    record(task, tmp_path / "t", steps=60)
    forged = Forgery(tmp_path / "t")
    forged.records[40] = forged.records[40].model_copy(update={"rows": [[99] * 8]})
    verdict = verify(forged.write(tmp_path / "f"), task=task, sampling=Sampling(1.0, 0.5, "n"))
    assert verdict.verdict == "REJECT"
    assert standings(verdict)["scheduled"] == "refuted"
    assert "not in the data set" in verdict.properties["reproduced"].why


def test_malformed_states_are_rejected_like_everywhere(tmp_path: Path) -> None:
    task = tiny_task()
    record(task, tmp_path / "t", steps=10)
    forged = Forgery(tmp_path / "t")
    forged.states[5] = State({"param/weight": forged.states[5].tensors["param/weight"]})
    verdict = verify(forged.write(tmp_path / "f"), task=task, threshold=EPS, sampling=Sampling(0.1, 0.999, "n"))
    assert verdict.verdict == "REJECT"


def test_optimiser_state_from_the_trace_shows_nothing_unless_exact(tmp_path: Path) -> None:
    task = tiny_task(**MOMENTUM)
    record(task, tmp_path / "t", steps=30)
    assert verify(tmp_path / "t", task=task, sampling=Sampling(0.1, 0.9)).verdict == "ACCEPT"  # bit for bit
    forged = Forgery(tmp_path / "t")
    for step in range(1, 31):
        momentum = forged.states[step].tensors["optim/bias/momentum_buffer"]
        forged.set(step, "optim/bias/momentum_buffer", momentum * (1 + 1e-5))
    verdict = verify(forged.write(tmp_path / "f"), task=task, threshold=EPS, sampling=Sampling(0.1, 0.9))
    assert verdict.verdict == "INCONCLUSIVE"
    assert "momentum_buffer" in verdict.properties["reproduced"].why


def test_checkpoints_and_requests_that_make_no_sense(tmp_path: Path) -> None:
    task = tiny_task()
    record(task, tmp_path / "t", steps=20, checkpoint_every=4)
    verdict = verify(tmp_path / "t", task=task, sampling=Sampling(0.5, 0.9))
    assert verdict.verdict == "ACCEPT"
    assert verdict.sample is not None
    assert verdict.sample["spans"] == 5
    assert "of 5 spans of 4 steps were drawn" in verdict.reasons[0]
    wrong: list[dict[str, Any]] = [
        {"sampling": Sampling(0.0, 0.9)}, {"sampling": Sampling(1.1, 0.9)}, {"sampling": Sampling(0.1, 1.0)},
        {"sampling": Sampling(0.1, 0.0)}, {"sampling": Sampling(0.1, 0.9), "steps": (0, 4)},
        {"sampling": Sampling(math.nan, 0.9)},
    ]  # fmt: skip
    for arguments in wrong:
        with pytest.raises(UsageError):
            verify(tmp_path / "t", task=task, **arguments)

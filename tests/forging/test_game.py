"""Algorithm 1, and what its outcome is worth."""

from __future__ import annotations

from tests.conftest import tiny_task
from trainwitness import Threshold
from trainwitness.core.batch import Batch
from trainwitness.core.forgery import Cost, Forgery
from trainwitness.forging.game import play, reject_reason


def test_a_strict_verifier_wins_and_a_lax_one_loses() -> None:
    strict = play(tiny_task(), "swap-search", threshold=Threshold(value=1e-9), rounds=5, steps=20)
    assert (strict.wins, strict.rejected) == (0, {"error": 5})
    lax = play(tiny_task(), "swap-search", threshold=Threshold(value=1.0), rounds=5, steps=20)
    assert (lax.wins, lax.rejected) == (5, {})
    assert strict.errors == lax.errors
    assert strict.interval[0] == 0
    assert 0.4 < strict.interval[1] < 0.6
    assert lax.interval[1] == 1


def test_reasons_are_told_apart() -> None:
    def forgery(error: float, *problems: str) -> Forgery:
        return Forgery("x", 0, Batch(0, 0, ((0,),)), (0,), error, 1.0, Cost(0, 0, 0), problems)

    assert reject_reason(forgery(0.5), 1.0) is None
    assert reject_reason(forgery(2.0), 1.0) == "error"
    assert reject_reason(forgery(0.0, "the same batch"), 1.0) == "same batch"
    assert reject_reason(forgery(0.0, "outside the domain: x"), 1.0) == "outside the domain"


def test_leaving_the_domain_loses_whatever_the_error() -> None:
    settings = {"projected": False, "steps": 3}
    game = play(
        tiny_task(), "optimise", threshold=Threshold(value=100.0), rounds=2, steps=5, settings=settings, fraction=0.5
    )
    assert (game.wins, game.rejected) == (0, {"outside the domain": 2})
    assert game.steps == sorted(game.steps)
    assert all(0 <= step < 5 for step in game.steps)

"""The forging game: how many rounds the adversary won."""

from __future__ import annotations

from collections.abc import Sequence

from trainwitness.report.blocks import Facts, Plot, Section, Series, Table
from trainwitness.report.kinds.kind import tells
from trainwitness.report.read import Envelope


@tells("play")
def tell(envelope: Envelope, _all: Sequence[Envelope]) -> Section:
    """The section of one game."""
    game = envelope.result
    headline = f"{game['attack']} won {game['wins']} of {game['rounds']} rounds of the forging game"
    low, high = game["interval"]
    facts = {
        "rounds": game["rounds"],
        "won": game["wins"],
        "probability of winning, 95% from": low,
        "to": high,
        "threshold": game["threshold"],
        **{f"rejected: {reason}": count for reason, count in game["rejected"].items()},
    }
    steps, errors = game["steps"], game["errors"]
    plot = Plot(
        "Errors of the rounds", "step that was drawn", "l2 error",
        [
            Series("forgery", steps, [error or None for error in errors], "points"),
            Series("threshold", [min(steps), max(steps)], [game["threshold"] or None] * 2, "limit"),
        ],
        Table("rounds", ["step", "error"], list(zip(steps, errors, strict=True))),
    )  # fmt: skip
    return Section(headline, [Facts("The game", facts), plot], "bad" if game["wins"] else "good")

"""verify + evidence: the time-stamped grade of `data_committed`."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

from trainwitness.attestation.timestamps import TimestampRefused, check_timestamp, load_roots
from trainwitness.core.files import read_evidence
from trainwitness.core.verdict import Property, Verdict


def with_timestamp(verdict: Verdict, commitment: Path, token: Path, authority: Path) -> Verdict:
    """The verdict with what a timestamp over the commitment's file adds: that it existed at a time.

    Not that training began later: only a nonce given out after the commitment shows that. So these are two grades.
    """
    found = verdict.properties["data_committed"]
    try:
        moment = _moment(commitment, token, authority)
    except TimestampRefused as refused:
        why = f"the timestamp does not hold: {refused}"
        reasons = [*(verdict.reasons if verdict.verdict == "REJECT" else []), f"data_committed: {why}"]
        return _with(verdict, Property(standing="refuted", why=why), {"verdict": "REJECT", "reasons": reasons})
    if found.standing != "established":
        return verdict
    when = f"the commitment existed on {moment:%Y-%m-%d %H:%M:%S} UTC"
    why = f"{found.why}; {when}" + ("" if "before_nonce" in found.grades else ", which does not date the training")
    return _with(verdict, Property(standing="established", why=why, grades=[*found.grades, "time_stamped"]), {})


def _moment(commitment: Path, token: Path, authority: Path) -> datetime:
    return check_timestamp(read_evidence(token), read_evidence(commitment), load_roots(authority), token.name)


def _with(verdict: Verdict, found: Property, update: dict[str, Any]) -> Verdict:
    return verdict.model_copy(update={"properties": {**verdict.properties, "data_committed": found}, **update})

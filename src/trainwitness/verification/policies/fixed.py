"""fixed: a number that somebody chose."""

from __future__ import annotations

from dataclasses import dataclass

from trainwitness.core.verdict import Threshold


@dataclass(frozen=True)
class Fixed:
    """The same l2 bound for every step; how often it rejects an honest trace is not known."""

    value: float

    def threshold(self) -> Threshold:
        return Threshold(value=self.value, origin="fixed")

"""One class per kind of failure. A failed verification is a Verdict, never one of these."""

from __future__ import annotations


class TrainwitnessError(Exception):
    """Base of all errors a user can act on.

    `message` names the file or step, what was expected and what was found; `hint` says what to do next.
    """

    exit_code = 70
    usual_hint: str | None = None
    """What to do about errors of this class that bring no hint of their own."""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint or self.usual_hint

    def diagnostics(self) -> str:
        """The message with its hint, as shown to a person."""
        return self.message if self.hint is None else f"{self.message}\n  what to do: {self.hint}"


class UsageError(TrainwitnessError):
    """The request itself makes no sense: an unknown task, a batch larger than the data set."""

    exit_code = 2
    usual_hint = "see --help"


class NotCapturable(TrainwitnessError):
    """Something in the user's training loop could never be recomputed, so recording it would prove nothing."""

    exit_code = 2


class DataMissing(TrainwitnessError):
    """A data set's files are not where they were looked for."""

    exit_code = 3


class DataDamaged(TrainwitnessError):
    """A data set's file is there but is not what it should be."""

    exit_code = 3
    usual_hint = "get the file again from where the data set is published"


class TraceDamaged(TrainwitnessError):
    """A trace is truncated, altered, mixed up or hostile."""

    exit_code = 3
    usual_hint = "get the trace again from whoever made it; a damaged one cannot be verified"


class TraceMismatch(TrainwitnessError):
    """A sound trace, but of another task, data set or configuration than the one asked for."""

    exit_code = 3
    usual_hint = "trainwitness inspect TRACE says what the trace is of"


class ResultDamaged(TrainwitnessError):
    """A file that should be the JSON of a verb is not."""

    exit_code = 3


class EvidenceDamaged(TrainwitnessError):
    """A commitment, proof, attestation, key or timestamp cannot be read, or is not of what it was given for."""

    exit_code = 3
    usual_hint = "give the file as trainwitness wrote it, and to the option it is meant for"


class StorageError(TrainwitnessError):
    """The disk refused: full, read-only, or in use by another recorder."""

    exit_code = 3
    usual_hint = "is it a file in a folder that is there, with room, and may you write to it?"

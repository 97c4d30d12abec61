"""`trainwitness verify`: recompute a trace and say what is established."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trainwitness.cli.extras import extra
from trainwitness.cli.output import DataOption, JsonOption, Output
from trainwitness.cli.record import PrecisionChoice, wrong_options

if TYPE_CHECKING:
    from trainwitness.commitments.commitment import Committed
    from trainwitness.core.verdict import Verdict
    from trainwitness.verification.sampling import Sampling

MARGIN = "forgery_margin"
EXIT = {"ACCEPT": 0, "REJECT": 1, "INCONCLUSIVE": 4}


def verify(
    trace: Annotated[Path, typer.Argument(help="A trace folder or packed trace.")],
    task: Annotated[
        str | None,
        typer.Option(metavar="TASK", help="The task, if it is not a built-in one: package.module:function."),
    ] = None,
    threshold: Annotated[
        float | None, typer.Option(min=0, metavar="EPS", help="Largest l2 error of a step that counts as benign.")
    ] = None,
    calibration: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Judge by a calibration made on this machine.")
    ] = None,
    policy: Annotated[
        str, typer.Option(help="How the calibration is used: largest[:MARGIN], extreme[:RATE] or adaptive[:RATE].")
    ] = "extreme",
    allow_mismatch: Annotated[
        bool, typer.Option("--allow-mismatch", help="Use a calibration that does not fit; INCONCLUSIVE at most.")
    ] = False,
    steps: Annotated[str | None, typer.Option(metavar="A:B", help="Recompute only steps A to B-1.")] = None,
    precision: Annotated[PrecisionChoice | None, typer.Option(help="Arithmetic (default: the trace's).")] = None,
    device: Annotated[str | None, typer.Option(help="cpu, cuda, ... (default: the trace's, if it is here).")] = None,
    threads: Annotated[int | None, typer.Option(min=1, help="CPU threads (default: the trace's).")] = None,
    model: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A safetensors file that must be the final State.")
    ] = None,
    require: Annotated[
        str, typer.Option(metavar="PROPERTY,...", help="Properties that ACCEPT needs.")
    ] = "reproduced",
    commitment: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Every row must be in this commitment.")
    ] = None,
    nonce: Annotated[
        str | None, typer.Option(help="The nonce given out after the commitment: it must seed the training.")
    ] = None,
    leaves: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The commitment's leaf hashes, if your copy differs.")
    ] = None,
    secret: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The owner's secret: compare the sorted tree too.")
    ] = None,
    timestamp: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A timestamp over the commitment's file.")
    ] = None,
    tsa_certificate: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Certificates of the time-stamping authorities you trust.")
    ] = None,
    detect_fraction: Annotated[
        float | None, typer.Option(metavar="F", help="Recompute a random sample that shows whether F are false.")
    ] = None,
    confidence: Annotated[
        float | None, typer.Option(metavar="C", help="How surely (default 0.99); with --detect-fraction.")
    ] = None,
    sample_nonce: Annotated[
        str | None, typer.Option(metavar="NONCE", help="Draw the sample with this (default: a fresh one).")
    ] = None,
    red_team: Annotated[
        bool,
        typer.Option("--red-team", help="Attack three steps and say how near the attacks come to the threshold."),
    ] = False,
    one_by_one: Annotated[
        bool, typer.Option("--one-by-one", help="Never compute several steps of a small model at once.")
    ] = False,
    data: DataOption = None,
    json: JsonOption = None,
) -> int:
    """Compute every step of a trace again, compare the whole State, and say what is established.

    Without --threshold or --calibration only errors of exactly 0 are accepted.
    Traces of exact arithmetic need neither.
    Exit code 0 ACCEPT, 1 REJECT, 4 INCONCLUSIVE.

    --detect-fraction F: F is the share of the steps that a lie must touch to be looked for. Hiding one example of N
    touches about b/N of the steps (batches of b); a splice touches a single one, so the chain of digests, the order
    of rows and the largest updates are always checked in all steps.

    Example: trainwitness verify run.trace --threshold 1e-6
    """
    from trainwitness.core.numerics import Numerics
    from trainwitness.trace.reader import Trace
    from trainwitness.verification.calibration import load_calibration
    from trainwitness.verification.policies.fixed import Fixed
    from trainwitness.verification.resolve import numerics_for
    from trainwitness.verification.verify import verify as verify_trace

    output = Output(json)
    opened = Trace.open(trace)
    changes = {"precision": precision, "device": device, "threads": threads}
    given = {key: value for key, value in changes.items() if value is not None}
    with wrong_options():
        numerics = Numerics.model_validate(numerics_for(opened.manifest, None).model_dump() | given)
        chosen_threshold = None if threshold is None else Fixed(threshold).threshold()
    chosen = _range(steps, opened.steps)
    names = [name.strip() for name in require.split(",") if name.strip()]
    with output.progress("recomputing", chosen[1] - chosen[0]) as advance:
        verdict = verify_trace(
            opened,
            task=task,
            data=data,
            threshold=chosen_threshold,
            calibration=None if calibration is None else load_calibration(calibration),
            policy=policy,
            allow_mismatch=allow_mismatch,
            steps=chosen,
            numerics=numerics,
            model=model,
            require=[name for name in names if not (red_team and name == MARGIN)],  # type: ignore[misc]
            commitment=_committed(commitment, nonce, leaves, secret),
            sampling=_sampling(detect_fraction, confidence, sample_nonce),
            one_by_one=one_by_one,
            on_step=lambda _: advance(1 if numerics.precision == "exact" else opened.manifest.checkpoint_every),
        )
    result = {}
    if timestamp is not None:
        verdict = _time_stamped(verdict, commitment, timestamp, tsa_certificate)
    if red_team:
        from trainwitness.audit.red_team import with_red_team
        from trainwitness.verification.resolve import resolve_task

        built = resolve_task(task, opened.manifest, data)
        verdict, margin = with_red_team(verdict, opened, built, numerics, required=MARGIN in names)
        result = {"red_team": margin.to_json()}
    say_verdict(output, verdict)
    output.result("verify", verdict.model_dump(mode="json") | result)
    return EXIT[verdict.verdict]


def _committed(
    commitment: Path | None, nonce: str | None, leaves: Path | None, secret: Path | None
) -> Committed | None:
    from trainwitness.cli.commit import read_secret
    from trainwitness.commitments.commitment import Committed, check_nonce, read_commitment
    from trainwitness.core.errors import UsageError

    if commitment is None:
        if nonce or leaves or secret:
            raise UsageError("--nonce, --leaves and --secret speak of a commitment", hint="give --commitment FILE")
        return None
    return Committed(
        read_commitment(commitment),
        nonce=None if nonce is None else check_nonce(nonce),
        leaves=leaves,
        key=None if secret is None else read_secret(secret),
    )


def _sampling(fraction: float | None, confidence: float | None, nonce: str | None) -> Sampling | None:
    from trainwitness.core.errors import UsageError
    from trainwitness.verification.sampling import Sampling

    if fraction is None:
        if confidence is not None or nonce is not None:
            raise UsageError("--confidence and --sample-nonce go with --detect-fraction")
        return None
    return Sampling(fraction, 0.99 if confidence is None else confidence, nonce)


def _time_stamped(verdict: Verdict, commitment: Path | None, token: Path, authority: Path | None) -> Verdict:
    from trainwitness.core.errors import UsageError

    if commitment is None or authority is None:
        raise UsageError(
            "a timestamp is over a commitment, by an authority", hint="add --commitment and --tsa-certificate"
        )
    with extra("attest"):
        from trainwitness.audit.evidence import with_timestamp
    return with_timestamp(verdict, commitment, token, authority)


def say_verdict(output: Output, verdict: Verdict) -> None:
    """The verdict for people: the answer, why, and what is and is not established."""
    output.say(verdict.verdict)
    for reason in verdict.reasons:
        output.say(f"  {reason}")
    if verdict.task:
        options = "".join(f", {key} {value}" for key, value in verdict.task["options"].items())
        output.say(f"task {verdict.task['name']}{options}")
    threshold = "no threshold" if verdict.threshold is None else f"threshold {verdict.threshold.value:.2e}"
    exact = verdict.recomputed_on.startswith("exact")
    compared = "digests of steps compared" if exact else f"largest l2 error {verdict.max_l2:.2e} ({threshold})"
    output.say(f"recomputed {len(verdict.steps)} States in {verdict.recomputed_on}; {compared}")
    say_threshold(output, verdict)
    worst = sorted(verdict.steps, key=lambda error: -error.l2)[:3]
    if verdict.max_l2 and not exact:
        output.say("largest errors: " + ", ".join(f"step {error.step}: {error.l2:.2e}" for error in worst))
    split = [error for error in verdict.steps if error.rounding is not None]
    if split:
        rounding, rest = (max(getattr(error, key) for error in split) for key in ("rounding", "rest"))
        output.say(f"of it: rounding to the trace's precision up to {rounding:.2e}, the rest up to {rest:.2e}")
    for name, found in verdict.properties.items():
        output.say(f"  {found.standing:<12} {name:<14} {found.why}")


def say_threshold(output: Output, verdict: Verdict) -> None:
    """Where the threshold comes from and how likely it rejects an honest trace."""
    threshold = verdict.threshold
    if threshold is None:
        return
    output.say(f"threshold: {threshold.origin}")
    rejection = threshold.false_rejection
    if rejection is None:
        output.say("how often it rejects an honest trace is not known")
        return
    if rejection.stated is not None:
        output.say(f"made to reject {rejection.stated:.2%} of honest traces of {rejection.steps:,} steps")
    if verdict.steps and verdict.steps[-1].step >= rejection.horizon:
        output.say(
            f"the trace is longer than the {rejection.horizon:,} steps that the calibration looked at: noise grows "
            "in training, so this promises nothing for the later ones (calibrate with a longer --horizon)"
        )
    ties = "" if threshold.jumps is None else ", near ties included"
    output.say(f"{rejection.held_out_above} of {rejection.held_out} held-out honest errors are above it{ties}")
    jumped = [error for error in verdict.steps if error.rest_of_jump is not None]
    if jumped:
        largest, rest = max(e.l2 for e in jumped), max(e.rest_of_jump or 0.0 for e in jumped)
        output.say(f"{len(jumped)} steps above it pass, up to {largest:.2e}: near ties explain them up to {rest:.2e}")


def _range(text: str | None, steps: int) -> tuple[int, int]:
    from trainwitness.core.errors import UsageError

    if text is None:
        return 0, steps
    first, separator, last = text.partition(":")
    try:
        chosen = int(first or 0), int(last or steps) if separator else int(first) + 1
    except ValueError:
        chosen = (-1, -1)
    if not 0 <= chosen[0] < chosen[1] <= steps:
        raise UsageError(f"--steps {text}: the trace has steps 0 to {steps - 1}", hint="write A:B, such as 0:10")
    return chosen

"""`trainwitness prove-member`, `prove-absent` and `check-proof`: claims about one row of a commitment."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from trainwitness.cli.commit import LabelsOption, SourceArgument, read_secret, source_rows
from trainwitness.cli.output import DataOption, JsonOption, Output, SetOption

CommitmentArgument = Annotated[Path, typer.Argument(metavar="COMMITMENT", help="The commitment's file.")]
OutOption = Annotated[Path, typer.Option("--out", metavar="FILE", help="The proof to write.")]


def prove_member(
    commitment: CommitmentArgument,
    source: SourceArgument,
    index: Annotated[int, typer.Option("--index", min=0, help="Which row.")],
    out: OutOption,
    labels: LabelsOption = None,
    option: SetOption = None,
    data: DataOption = None,
    json: JsonOption = None,
) -> int:
    """Prove that a row is in a commitment. The proof holds hashes, not the row, and needs no data set to check.

    Example: trainwitness prove-member data.commit lenet-digits --index 3 --out member.proof
    """
    from trainwitness.commitments.commitment import read_commitment
    from trainwitness.commitments.proofs import prove_member as prove
    from trainwitness.core.files import write_new
    from trainwitness.core.records import dump

    output = Output(json)
    with output.status() as say:
        say("hashing the rows")
        proof = prove(read_commitment(commitment), source_rows(source, option, labels, data), index)
    write_new(out, dump(proof)[0], "proving")
    output.say(f"row {index} is in the commitment: {out}, {out.stat().st_size} bytes")
    output.result("prove-member", {**proof.model_dump(), "out": str(out)})
    return 0


def prove_absent(
    commitment: CommitmentArgument,
    source: SourceArgument,
    row: Annotated[Path, typer.Option(metavar="FILE", help="The row's canonical bytes (trainwitness row).")],
    secret: Annotated[Path, typer.Option(metavar="FILE", help="The secret the commitment was made with.")],
    out: OutOption,
    labels: LabelsOption = None,
    option: SetOption = None,
    data: DataOption = None,
    json: JsonOption = None,
) -> int:
    """Prove that no row of a commitment has this content, by two neighbouring keyed digests. No content is told.

    Example: trainwitness prove-absent data.commit lenet-digits --row row.bin --secret s.key --out absent.proof
    """
    from trainwitness.commitments.commitment import read_commitment
    from trainwitness.commitments.proofs import prove_absent as prove
    from trainwitness.core.files import read_evidence, write_new
    from trainwitness.core.records import dump

    output = Output(json)
    key, content = read_secret(secret), read_evidence(row)
    with output.status() as say:
        say("hashing the rows")
        proof = prove(read_commitment(commitment), source_rows(source, option, labels, data), key, content)
    write_new(out, dump(proof)[0], "proving")
    output.say(f"the row is not in the commitment: {out}, {out.stat().st_size} bytes")
    output.say("whoever checks it needs the secret too, or takes your word for the row's digest")
    output.result("prove-absent", {**proof.model_dump(), "out": str(out)})
    return 0


def check_proof(
    proof: Annotated[Path, typer.Argument(metavar="PROOF", help="A proof by prove-member or prove-absent.")],
    commitment: Annotated[Path, typer.Option(metavar="FILE", help="The commitment it is about.")],
    row: Annotated[Path | None, typer.Option(metavar="FILE", help="The row's canonical bytes.")] = None,
    secret: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The owner's secret, for proofs of absence.")
    ] = None,
    json: JsonOption = None,
) -> int:
    """Check a proof without the data set. Exit code 0 it holds, 1 it does not, 4 it rests on the owner's word.

    Example: trainwitness check-proof member.proof --commitment data.commit --row row.bin
    """
    from trainwitness.commitments.commitment import read_commitment
    from trainwitness.commitments.proofs import MemberProof, absent_problems, member_problems, parse_proof
    from trainwitness.core.files import read_evidence

    output = Output(json)
    found, made = parse_proof(read_evidence(proof), str(proof)), read_commitment(commitment)
    content = None if row is None else read_evidence(row)
    if isinstance(found, MemberProof):
        problems = member_problems(found, made, content)
        what, missing = f"row {found.index} of {made.data.name} is in the commitment", [] if row else ["--row"]
        doubt = "that its content is the one in question"
    else:
        problems = absent_problems(found, made, content, None if secret is None else read_secret(secret))
        what = f"no row of {made.data.name} has this content"
        missing = [name for name, given in (("--row", row), ("--secret", secret)) if given is None]
        doubt = "that the digest is that of the row in question"
    answer = "REFUSED" if problems else "INCONCLUSIVE" if missing else "HOLDS"
    output.say(answer if problems else f"{answer}: {what}")
    for problem in problems:
        output.say(f"  {problem}")
    if missing and not problems:
        output.say(f"  {doubt} was not checked: give {' and '.join(missing)}")
    output.result("check-proof", {"answer": answer, "claim": what, "problems": problems, "missing": missing})
    return {"HOLDS": 0, "REFUSED": 1, "INCONCLUSIVE": 4}[answer]

"""All kept results as one Markdown page: every claim with its verdict, then every table. Generated, never typed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from trainwitness.experiments.claim import judge
from trainwitness.experiments.claims import CLAIMS
from trainwitness.experiments.experiment import EXPERIMENTS, cell
from trainwitness.experiments.kept import Kept, read_kept

WHY = {
    "label-methods": "iLRG is confirmed on untrained models but for FCN-3 (LnAcc .982) and ResNet-18 with Swish "
    "(.986), instead of over .99; on FCN-3 and ResNet-18 GradInversion finds the classes more often (LeAcc). pooled "
    "is exact everywhere.",
    "label-batches": "iLRG falls off at the sizes where the paper's does, at other heights (other initial weights). "
    "pooled and auxiliary go further on every model. At 1024 pooled stays above .92 on VGG of any depth and falls "
    "with depth on ResNet, where auxiliary alone stays above .96.",
    "label-stages": "Confirmed: restoration fails as training goes on. likelihood is the best in the middle of "
    "training; on well-trained models no method beats guessing by frequencies clearly. With 4 images of each of 100 "
    "classes likelihood knows too little, and auxiliary is the best.",
    "label-imbalance": "Confirmed on LeNet-5 and VGG-16: exact at 626:1 untrained, single classes lost or "
    "overcounted when trained.",
    "inversion-labels": "Restored labels help on FCN-3, unsteadily: over the same six batches 2.8 dB on CPU (one "
    "batch loses) and 4.5 on a GPU, over the six best images 3.5 and 10.3, where the paper has 6 to 7: rounding "
    "decides where the search ends. IG restores nothing recognisable on the other models within these iterations.",
    "dlg-batches": "Every single image comes back on both networks. Batches (one of each size) do with 32 channels, "
    "in numbers of iterations that grow as the deck's do, to a factor of 2; with DLG's 12 channels they cannot, "
    "since the gradient then has fewer equations than the batch has unknowns.",
    "dlg-defences": "Precision and pruning are as in the deck, but for int8, under which images come back (labels "
    "are known here). Noise hides more than in the deck: 1e-4 is enough here. Accuracy suffers less: FCN-3 on MNIST "
    "is the easier task.",
    "reproduction-error": "Ours agree with the papers to a factor of 6, but for two. The transformer is 10 to 40 "
    "times quieter than theirs: unexplained (another framework, GPU and attention kernel). "
    "vggmini on CPU is 14 to 36 times noisier than Fig. 2, which is about one GPU: other "
    "convolution kernels (oneDNN switched off, channels last) differ that much. On one GPU it"
    " agrees.",
    "mixed-precision": "Ours agree within a factor of 5, but for vggmini, which is 20 to 40 times quieter than "
    "theirs: unexplained; ours is early in training, where its gradients are small.",
    "hardware": "GPU against CPU is as near as the papers' GPU against GPU, or nearer. Deterministic "
    "algorithms give exactly 0 on the same machine and change nothing across machines. The "
    "workshop paper's 4.4e-4 for VGGmini is a thousand times ours: unexplained; a jump at a "
    "near tie later in training could be that large.",
    "shuffle": "Confirmed.",
    "forging-fraction": "Errors grow with the fraction and fall with the batch size, as in Fig. 3. The papers' "
    "figures are larger than the whole update here, so of another scale (their scripts take sqrt(eta) for eta, or "
    "put softmax before cross-entropy).",
    "forging-stages": "At fraction 1 the paper's four orders above the benign error hold in float32 against our "
    "attacks too. In float16 and bfloat16 they do not: one order or less is left, and single examples are "
    "forged below the noise. The whole update is only two to three orders above it there.",
    "forging-loss": "Confirmed late in training: the error follows the loss and not the distance. Early it is the "
    "other way round, on LeNet and VGGmini: losses are still alike, so what differs is the input.",
    "optimisation": "LeNet agrees with the workshop paper. Its 1.38 for VGGmini is a thousand times the whole update "
    "here: of another scale.",
    "table4": "The paper found nothing because it sampled targets: where every pair of batches is compared, "
    "collisions exist from b = 4 on (softmax regression with bias), all of them relabellings.",
    "exact-forging": "Confirmed: rounding is all that is left.",
    "lattice-forging": "Against the conjecture of paper 000, section 5.4, at floating-point tolerance: valid batches "
    "with the same gradient up to rounding are found where the first layer is narrow. See docs/exact-forging.md.",
    "fibre-forging": "Smooth small networks have such batches in real numbers; the rounded column says what is left "
    "of them as pixels. For LeNet the method does not arrive.",
    "accuracy": "LeNet confirmed. FCN/Adult at 0.75 is the share of the larger class: with inputs as they"
    " are the model hardly leaves it; standardised, it learns.",
    "exact-accuracy": "Within 0.1 points of float32, but for lenet-digits, where exact arithmetic is 0.7 points "
    "better: 2 of 297 test rows.",
    "exact-hardware": "Equal everywhere means equal: one differing bit would change a leaf. On the GPU machine the "
    "digests of Adam and of normalising layers once differed, on its CPU too: torch.sqrt. Roots are computed "
    "otherwise since, and all are equal.",
    "exact-attacks": "Swaps, searches and lattices give no other batch the same State, sums or leaf. One change "
    "does: a corner pixel of an image that no active unit of LeNet sees, in which float64 finds no error either.",
}
"""Differences of more than an order of magnitude, explained or marked."""

HEADER = """# Results

Generated by `trainwitness reproduce --summary results > docs/results.md` from the files in `results/`; do not edit.

*confirmed*: ours is what the paper says (within a factor of 10, since most of theirs are orders of
magnitude; accuracies within 5%).
*differs*: it is not, and why. *suspect in the paper*: the published figure cannot be right, or does not mean what it
seems to. *beyond the paper*: nobody published it. Quick runs are never judged by."""


def markdown(folder: Path) -> str:
    """The claims, then a section per kept experiment with environment and command."""
    kept = [one for one in read_kept(folder) if not one.quick]
    claims = [judge(claim, kept).cells for claim in CLAIMS]
    parts = [HEADER, "## Claim by claim", _table(["claim", "paper", "ours", "ratio", "verdict"], claims)]
    for name in dict.fromkeys(one.name for one in kept):
        parts += [_section(one) for one in kept if one.name == name]
        parts += [WHY[name]] if name in WHY else []
    return "\n\n".join(parts) + "\n"


def _section(kept: Kept) -> str:
    reproduces, about = EXPERIMENTS.get(kept.name, ("", kept.name))
    header = [key for key in kept.rows[0] if not isinstance(kept.rows[0][key], (dict, list))]
    where = f"`{kept.path.name}`; {kept.machine}, PyTorch {kept.environment['torch']}; `{_command(kept.command)}`"
    table = _table(header, [[cell(row.get(key)) for key in header] for row in kept.rows])
    notes = "\n".join(f"- {note}" for note in kept.result["notes"])
    return "\n\n".join([f"## {kept.name} on {kept.device}: {about} ({reproduces})", where, table, notes])


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(word.replace("|", "\\|") for word in line) + " |" for line in lines)


def _command(command: Sequence[str]) -> str:
    """The command without where its output went."""
    return " ".join(_without(command, "--json"))


def _without(command: Sequence[str], option: str) -> Iterator[str]:
    words = iter(command)
    for word in words:
        if word == option:
            next(words, None)
        else:
            yield word

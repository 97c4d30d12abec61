"""What paper 004 (iLRG) and the DLG deck claim. Tables 3 and 4 of paper 004 are known to us by what its text says of
them, Fig. 2, 3 and 5 by its text and by the figures in its authors' repository."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from trainwitness.experiments import dlg_batches, label_batches
from trainwitness.experiments.claim import Claim
from trainwitness.experiments.experiment import Row

PAPER, DECK = "paper 004", "DLG deck"
OTHER_WEIGHTS = "it falls off at the same sizes, at other heights; their initial weights are not known to us"
Figures = Callable[[Sequence[Row]], Sequence[float]]


def _stages(rows: Sequence[Row], what: str, column: str) -> dict[str, list[float]]:
    """Model -> a figure of label-approximations by stage, untrained first."""
    found: dict[str, list[float]] = {}
    for row in sorted(rows, key=lambda row: row["step"]):
        if row["what"] == what:
            found.setdefault(row["model"], []).append(row[column])
    return found


def _over(one: str, other: str, column: str, stages: slice = slice(None)) -> Figures:
    """A figure of one quantity over that of another, at each stage."""

    def figures(rows: Sequence[Row]) -> list[float]:
        a, b = _stages(rows, one, column), _stages(rows, other, column)
        return [x / y for model in a for x, y in zip(a[model][stages], b[model][stages], strict=True)]

    return figures


def _trained_over_untrained(what: str, column: str) -> Figures:
    """The last stage's figure over the untrained one's, for each model."""

    def figures(rows: Sequence[Row]) -> list[float]:
        found = _stages(rows, what, column).values()
        return [values[-1] / values[0] for values in found if len(values) > 1]

    return figures


def _gap(rows: Sequence[Row]) -> list[float]:
    ours, theirs = (_stages(rows, f"embedding, {name}", "CosSim") for name in ("iLRG", "Soteria"))
    return [x - y for model in ours for x, y in zip(ours[model], theirs[model], strict=True)]


def _over_none(column: str) -> Figures:
    """What is left of a figure under each of the chosen defences."""

    def figures(rows: Sequence[Row]) -> list[float]:
        none = [row[column] for row in rows if row["defence"] == "none"]
        return [row[column] / none[0] for row in rows if row["defence"] != "none"] if none else []

    return figures


def _hidden(rows: Sequence[Row]) -> list[float]:
    return [float(row["protects"] == "yes") for row in rows]


def _share_clear(rows: Sequence[Row]) -> list[float]:
    return [row["above 25 dB"] / row["images"] for row in rows]


def _growth(rows: Sequence[Row]) -> list[float]:
    """Iterations until 25 dB of the larger batch over those of one image."""
    one, *larger = [row["until 25 dB"] for row in sorted(rows, key=lambda row: row["batch"])] or [None]
    return [count / one for count in larger if count is not None and one is not None]


def _one_of(*names: object) -> Callable[[object], bool]:
    return lambda name: name in names


_TRAINED = {"step": lambda step: step > 0}
LEAKAGE: tuple[Claim, ...] = (
    Claim(f"{PAPER}, Table 1", "iLRG, untrained models, batch 24: LeAcc", "label-methods", 0.99, {"method": "ilrg"},
          "LeAcc", "at least", why="ResNet-18 with Swish alone misses; the paper's Swish is in LeNet-5"),
    Claim(f"{PAPER}, Table 1", "iLRG, the same: LnAcc", "label-methods", 0.99, {"method": "ilrg"}, "LnAcc",
          "at least", why="FCN-3 misses (not with pixels in 0..1, see label-batches), and ResNet-18 with Swish"),
    Claim(f"{PAPER}, Table 1", "iDLG on LeNet-5 with Swish: LeAcc plummets (read as a half)", "label-methods", 0.5,
          {"method": "idlg", "activation": "swish", "model": "LeNet-5/CIFAR-100"}, "LeAcc", "at most"),
    Claim(f"{PAPER}, Table 1", "GradInversion on LeNet-5 with Swish: the same", "label-methods", 0.5,
          {"method": "gradinversion", "activation": "swish", "model": "LeNet-5/CIFAR-100"}, "LeAcc", "at most"),
    *(
        Claim(f"{PAPER}, Fig. 3 and repository", f"iLRG on {model} at batch {size}: LnAcc", "label-batches", figure,
              {"model": model, "batch": size, "pixels": "standardised"}, within=1.05,
              why="theirs has 1000 classes of ImageNet, ours 100" if model.startswith("ResNet") else OTHER_WEIGHTS)
        for (model, size), figure in label_batches.PAPER.items()
    ),
    Claim(f"{PAPER}, Fig. 2 and repository",
          "iLRG after training, batch 64: LnAcc (theirs VGG-16, ours LeNet-5 on CIFAR-100)", "label-stages", 0.567,
          {"model": "LeNet-5/CIFAR-100", "batch": 64, "step": 1000}, "ilrg", "none",
          why="another model at another stage: not to be compared"),
    Claim(f"{PAPER}, Fig. 2", "iLRG on well-trained FCN-3 and LeNet-5: fails (LnAcc below a half)", "label-stages",
          0.5, {"step": 3000}, "ilrg", "at most"),
    *(
        Claim(f"{PAPER}, Table 3", f"approximation {k}: MSE at the end of training over that at the start",
              "label-approximations", 1.0, {"what": f"approximation {k}"}, rule="at least",
              figures=_trained_over_untrained(f"approximation {k}", "MSE"))
        for k in (1, 3)
    ),
    Claim(f"{PAPER}, Table 3", "approximation 2: the same, falls", "label-approximations", 1.0,
          {"what": "approximation 2"}, rule="at most", figures=_trained_over_untrained("approximation 2", "MSE")),
    Claim(f"{PAPER}, Table 3", "approximation 2: MRE at the end over that at the start, grows",
          "label-approximations", 1.0, {"what": "approximation 2"}, rule="at least",
          why="unexplained: ours ends lower than it began",
          figures=_trained_over_untrained("approximation 2", "MRE")),
    Claim(f"{PAPER}, Table 3", "MRE of approximation 2 over that of approximation 1, at every stage",
          "label-approximations", 1.0, {"what": _one_of("approximation 1", "approximation 2")}, rule="at least",
          figures=_over("approximation 2", "approximation 1", "MRE")),
    Claim(f"{PAPER}, Table 4", "embeddings: cosine of iLRG minus that of Soteria, at every stage",
          "label-approximations", 0.0, {"what": _one_of("embedding, iLRG", "embedding, Soteria")}, rule="at least",
          figures=_gap),
    Claim(f"{PAPER}, Table 4", "embeddings, untrained: MSE of iLRG over that of Soteria", "label-approximations", 1.0,
          {"what": _one_of("embedding, iLRG", "embedding, Soteria"), "step": 0}, rule="at most",
          why="not on FCN-3; the paper itself speaks of rare large errors that make the mean",
          figures=_over("embedding, iLRG", "embedding, Soteria", "MSE")),
    Claim(f"{PAPER}, Table 5", "626 of one class to 1 of two others, untrained, iLRG: LnAcc", "label-imbalance", 1.0,
          {"batch": 628, "step": 0, "method": "ilrg"}, "LnAcc", "at least"),
    Claim(f"{PAPER}, Table 5", "the same when trained: no longer exact (LnAcc)", "label-imbalance", 0.999,
          {"batch": 628, "method": "ilrg"} | _TRAINED, "LnAcc", "at most"),
    Claim(f"{PAPER}, Fig. 4", "IG with restored labels: dB gained over the six best images, FCN-3",
          "inversion-labels", 6.0, {"task": "mlp-mnist"}, "gain, six best", "at least",
          why="the same six batches on two machines; theirs are six images of one batch"),
    Claim(f"{PAPER}, Fig. 4", "the same over all images", "inversion-labels", None, {"task": "mlp-mnist"}, "gain",
          "none", why="the paper shows its six best only"),
    Claim(f"{PAPER}, Fig. 5", "noise of variance 1e-2: iLRG's LnAcc over that without (read as a half)",
          "label-defences", 0.5, {"defence": _one_of("none", "gaussian:0.01", "laplacian:0.01")}, rule="at most",
          figures=_over_none("ilrg")),
    Claim(f"{PAPER}, Fig. 5", "90% of the gradient pruned: the same", "label-defences", 0.5,
          {"defence": _one_of("none", "prune:0.9", "prune:0.99")}, rule="at most", figures=_over_none("ilrg")),
    *(
        Claim("ours", f"{method} on {model} at batch {size}: LnAcc", "label-batches", None,
              {"model": model, "batch": size, "pixels": "standardised"}, method, "none", why=f"aim {aim:g}")
        for method, model, size, aim in (
            ("pooled", "FCN-3", 128, 0.79), ("auxiliary", "FCN-3", 128, 0.99),
            ("pooled", "LeNet-5", 1024, 0.99), ("pooled", "LeNet-5", 4096, 0.99),
        )
    ),
    *(
        Claim(DECK, f"DLG: iterations for {size} images over those for one (theirs ResNet-20, ours 32 channels)",
              "dlg-batches", figure / dlg_batches.PAPER[1], {"batch": _one_of(1, size), "channels": 32}, within=2,
              figures=_growth)
        for size, figure in dlg_batches.PAPER.items() if size > 1
    ),
    Claim(DECK, "DLG restores batches up to 8: share of images above 25 dB, 32 channels", "dlg-batches", 1.0,
          {"channels": 32}, rule="at least", figures=_share_clear),
    Claim(DECK, "the same with DLG's network of 12 channels, batches of 2 to 8", "dlg-batches", None,
          {"channels": 12, "batch": lambda size: size > 1}, rule="none", figures=_share_clear,
          why="its gradient has fewer equations than such batches have unknowns (the table's columns)"),
    *(
        Claim(DECK, f"DLG under {what}: hidden (1) or not (0)", "dlg-defences", float(hidden),
              {"defence": _one_of(*names)}, rule="exactly", figures=_hidden, why=why)
        for what, hidden, names, why in (
            ("noise of variance up to 1e-3", 0,
             ("gaussian:1e-4", "gaussian:1e-3", "laplacian:1e-4", "laplacian:1e-3"),
             "what a variance hides depends on the gradient's size, and so on the network"),
            ("noise of variance from 1e-2", 1, ("gaussian:1e-2", "gaussian:1e-1", "laplacian:1e-2", "laplacian:1e-1"),
             "what a variance hides depends on the gradient's size, and so on the network"),
            ("float16", 0, ("float16",), ""),
            ("int8", 1, ("int8",), "labels are known here, and 255 levels for each tensor are enough"),
            ("pruning of up to 10%", 0, ("prune:0.01", "prune:0.1"), ""),
            ("pruning from 20%", 1, ("prune:0.2", "prune:0.5"), "labels are known here"),
        )
    ),
    Claim(DECK, "accuracy with noise of variance 1e-2 over that without", "dlg-defences", 0.453 / 0.763,
          {"defence": _one_of("none", "gaussian:1e-2")}, within=1.05, figures=_over_none("accuracy"),
          why="FCN-3 on MNIST here, an easier task than theirs on CIFAR-100"),
)  # fmt: skip

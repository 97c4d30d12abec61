"""What the papers claim, as data. Figures are theirs; ours come from kept results and the verdict from both."""

from __future__ import annotations

from collections.abc import Sequence

from trainwitness.experiments import exact_forging, forging_fraction, forging_stages, mixed_precision
from trainwitness.experiments.claim import Claim
from trainwitness.experiments.claims_leakage import LEAKAGE
from trainwitness.experiments.experiment import Row

PAPER, WORKSHOP = "paper 000", "workshop paper"


def _float16_orders(rows: Sequence[Row]) -> str:
    """Four orders above the benign error would be more than the whole update."""
    worst = max(rows, key=lambda row: row["benign"] / row["update"])
    needed = worst["benign"] * 10 ** forging_stages.PAPER_ORDERS["float16"]
    return (
        f"4 orders above the benign error of {worst['task']} ({worst['benign']:.1e}) would be {needed:.1e}; "
        f"its whole update is {worst['update']:.1e}"
    )


def _majority(rows: Sequence[Row]) -> str:
    best = max(row["ours"] for row in rows)
    return f"0.75 is the share of the larger class: a model that learned nothing; standardised inputs give {best:.3f}"


def _more_than_the_update(rows: Sequence[Row]) -> str:
    update = max(row["update"] for row in rows)
    return f"an error of more than 1 is more than the whole update, {update:.1e} here; it must be of another scale"


def _not_infeasible(rows: Sequence[Row]) -> str:
    found = [row for row in rows if row["changed"] == row["batch"]]
    best = min(found or rows, key=lambda row: row["times_order"])
    return (
        f"conjectured infeasible; {best['changed']} of {best['batch']} images of {best['task']} replaced by valid "
        f"ones in {best['seconds']:.0f} s, error {best['error']:.1e} where another order of the honest batch gives "
        f"{best['order']:.1e}"
    )


SAMPLED = "the paper sampled targets; where every pair of batches is compared, relabellings collide"
CLAIMS: tuple[Claim, ...] = (
    Claim(f"{PAPER}, Fig. 2", "LeNet repeated in float32 on one machine", "reproduction-error", 1e-8,
          {"task": "lenet-mnist"}),
    Claim(f"{PAPER}, Fig. 2", "FCN on Adult, the same", "reproduction-error", 1e-8, {"task": "fcn-adult"}),
    Claim(f"{PAPER}, Fig. 2", "VGGmini on CIFAR-10, the same", "reproduction-error", 1e-8,
          {"task": "vggmini-cifar10"},
          why="on one GPU ours agrees; on CPU other convolution kernels (oneDNN off, channels last) differ more"),
    Claim(f"{PAPER}, Fig. 2", "the transformer, the same", "reproduction-error", 1e-6, {"task": "transformer-imdb"},
          rule="at most"),
    *(
        Claim(f"{PAPER}, Table 2", f"{task} in {precision}", "mixed-precision", figure,
              {"task": task, "precision": precision},
              why="unexplained; ours is early in training, where gradients are small" if "vgg" in task else "")
        for (task, precision), figure in mixed_precision.PAPER.items()
    ),
    Claim(f"{PAPER}, Table 3", "deterministic algorithms on the same device: no error at all", "hardware", 0.0,
          {"deterministic": "on", "paper": 0.0}, rule="exactly"),
    Claim(f"{PAPER}, Table 3", "the same GPU with auto-tuning", "hardware", 1e-8,
          {"deterministic": "off", "from": "cuda", "to": "cuda"}),
    Claim(f"{PAPER}, Table 3", "LeNet between two devices (theirs two GPUs, ours a GPU and a CPU)", "hardware", 1e-7,
          {"deterministic": "off", "task": "lenet-mnist", "paper": 1e-7}),
    Claim(f"{PAPER}, Table 3", "the same with deterministic algorithms", "hardware", 1e-6,
          {"deterministic": "on", "task": "lenet-mnist", "paper": 1e-6}, rule="at most"),
    Claim(f"{WORKSHOP}, Table 3", "VGGmini between two devices", "hardware", 4.4e-4,
          {"task": "vggmini-cifar10", "paper": 4.4e-4},
          why="unexplained; a jump at a near tie later in training could be that large"),
    Claim(f"{WORKSHOP}, Fig. 4", "logistic regression with its batches in another order", "shuffle", 1e-8),
    Claim(f"{PAPER}, Table 5", "accuracy of LeNet on MNIST", "accuracy", 0.94, {"task": "lenet-mnist"}, within=1.05),
    Claim(f"{PAPER}, Table 5", "accuracy of FCN on Adult", "accuracy", 0.75, {"task": "fcn-adult"},
          suspect=_majority),
    *(
        Claim(f"{PAPER}, section 5", f"replacing a whole batch in {precision}: orders above the benign error",
              "forging-stages", orders, {"precision": precision, "replaced": 100}, "orders above benign", "at least",
              suspect=_float16_orders if precision == "float16" else None)
        for precision, orders in forging_stages.PAPER_ORDERS.items()
    ),
    *(
        Claim(f"{PAPER}, of Kong and Thudi", f"{task}, b = {size}: greedy search, the whole batch",
              "forging-fraction", figure, {"task": task, "batch": size, "paper": figure}, "mean",
              suspect=_more_than_the_update if task.startswith("vgg") else None)
        for (task, size, _), figure in forging_fraction.REPORTED.items()
    ),
    Claim(f"{PAPER}, Fig. 11", "forging one example: its error follows its loss (rho, lower end of 95%)",
          "forging-loss", 0.0, {"error against": "loss"}, "95% from", "at least",
          why="not where VGGmini has hardly begun to learn and all losses are alike"),
    Claim(f"{PAPER}, Fig. 4b", "and not the distance to its neighbours (rho, lower end of 95%)", "forging-loss", 0.0,
          {"error against": "distance to the nearest of its class"}, "95% from", "at most",
          why="it does follow the distance there"),
    Claim(f"{WORKSHOP}, Fig. 2", "LeNet forged by gradient descent on the inputs", "optimisation", 1e-3,
          {"task": "lenet-mnist", "inputs": "anywhere"}),
    Claim(f"{WORKSHOP}, Fig. 2", "VGGmini forged by gradient descent on the inputs", "optimisation", 1.38,
          {"task": "vggmini-cifar10"}, suspect=_more_than_the_update),
    Claim(f"{PAPER}, Table 4", "softmax regression: pairs of valid batches with one gradient, in cells it finished",
          "table4", 0.0, {"model": "softmax", "paper": "none found"}, "colliding pairs", "exactly", why=SAMPLED),
    Claim(f"{PAPER}, Table 4", "the net of 10 ReLU units, the same", "table4", 0.0,
          {"model": lambda name: name.startswith("10 ReLU"), "paper": "none found"}, "colliding pairs", "exactly",
          why=SAMPLED),
    *(
        Claim(figure if figure.startswith("workshop") else f"{PAPER}, {figure}",
              f"{name} on {task}: real-valued batches", "exact-forging", error,
              {"figure": figure, "attack": name, "task": task}, rule="at most",
              why="another batch, and so another size of gradient")
        for name, task, _, figure, error in exact_forging.CASES if error is not None
    ),
    Claim(f"{PAPER}, section 5.4", "valid batches for logistic regression: error over that of another order",
          "lattice-forging", None,
          {"task": lambda name: name.startswith("softmax"), "about": lambda what: what.startswith("goal")},
          "times_order", suspect=_not_infeasible),
    Claim("Thudi et al. 2022", "the error of random batches falls as b to the power of", "batch-scaling", -0.5,
          {"attack": "random batch"}, "slope", within=1.2),
    *LEAKAGE,
    Claim("ours", "exact arithmetic: steps and traces equal on every setting and device", "exact-hardware", None,
          column="equal", rule="none"),
    Claim("ours", "exact arithmetic: accuracy minus that of float32", "exact-accuracy", None, column="difference",
          rule="none"),
    Claim("ours", "share of honest traces that the default policy rejects", "false-rejection", None, column="rate",
          rule="none", why="made for 0.01"),
)  # fmt: skip

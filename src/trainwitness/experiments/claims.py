"""What the papers claim, as data. Figures are theirs; ours come from kept results and the verdict from both."""

from __future__ import annotations

from collections.abc import Sequence

from trainwitness.experiments import forging_fraction, forging_stages, mixed_precision
from trainwitness.experiments.claim import Claim
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
    Claim("ours", "share of honest traces that the default policy rejects", "false-rejection", None, column="rate",
          rule="none", why="made for 0.01"),
)  # fmt: skip

"""DLG deck, text: tokens and their order from a transformer's gradient, and DLG on the embeddings."""

from __future__ import annotations

from typing import Any

import numpy as np

from trainwitness.core.seeds import derive, permutation
from trainwitness.experiments.experiment import Setting
from trainwitness.leakage.inputs.target import Target
from trainwitness.leakage.text import dlg_tokens, ordered_tokens, tokens_present
from trainwitness.tasks.builtin.common import Options, classification_task
from trainwitness.tasks.builtin.transformer import Transformer
from trainwitness.tasks.data import imdb
from trainwitness.tasks.dataset import Dataset
from trainwitness.tasks.task import Task
from trainwitness.training.stepper import Stepper


def run(setting: Setting) -> dict[str, Any]:
    available = imdb.SOURCE.available(setting.data)
    task = setting.task("transformer-imdb") if available else _invented()
    stepper = Stepper(task, setting.numerics())
    lengths = (task.dataset.inputs != imdb.PADDING).sum(1)
    by_length = np.argsort(lengths, kind="stable")
    count = 2 if setting.quick else 20
    rows: list[dict[str, Any]] = []
    for what, chosen in (("shortest", by_length[:count]), ("random", permutation(0, len(task.dataset))[:count])):
        setting.advance(f"one example, {what}")
        rows.append(_one(stepper, what, [int(row) for row in chosen], lengths))
    for size in (8,) if setting.quick else (8, 32, 100):
        setting.advance(f"batch of {size}")
        exact = []
        for number in range(count):
            batch = [int(k) for k in permutation(derive(0, "text", size, number), len(task.dataset))[:size]]
            found = set(tokens_present(Target.of_rows(stepper, stepper.state(), batch)).tolist())
            exact.append(found == set(np.unique(task.dataset.inputs[batch]).tolist()))
        rows.append({"what": "batch", "batch": size, "examples": count, "tokens exact": float(np.mean(exact))})
    iterations = 10 if setting.quick else 1000
    row = int(by_length[0])
    setting.advance("DLG on embeddings")
    target = Target.of_rows(stepper, stepper.state(), [row])
    tokens, left = dlg_tokens(target, target.labels_of([row]), steps=iterations)
    right = tokens[0] == task.dataset.inputs[row]
    notes = [
        "tokens exact: the rows of the embedding with a gradient are the tokens of the batch, and no others",
        "order: share of positions (and of words, without padding) placed rightly, for one example",
        f"DLG on embeddings, shortest example ({int(lengths[row])} words), {iterations} iterations: "
        f"{right[task.dataset.inputs[row] != imdb.PADDING].mean():.0%} of the words, objective {left:.1e}",
        "the deck's BERT examples come back word by word in 30 iterations of DLG",
    ]
    if not available:
        notes.append("without IMDB: invented rows of random tokens")
    return {"rows": rows, "notes": notes}


def _one(stepper: Stepper, what: str, chosen: list[int], lengths: Any) -> dict[str, Any]:
    inputs = stepper.task.dataset.inputs
    exact, placed, words = [], [], []
    for row in chosen:
        target = Target.of_rows(stepper, stepper.state(), [row])
        exact.append(set(tokens_present(target).tolist()) == set(inputs[row].tolist()))
        right = ordered_tokens(target) == inputs[row]
        placed.append(right.mean())
        words.append(right[inputs[row] != imdb.PADDING].mean())
    return {
        "what": what, "batch": 1, "examples": len(chosen), "tokens exact": float(np.mean(exact)),
        "order": float(np.mean(placed)), "order, words": float(np.mean(words)),
        "words in all": float(np.mean(lengths[chosen])),
    }  # fmt: skip


def _invented() -> Task:
    """Rows of 5 to 40 random tokens, for runs without data."""
    rng = np.random.Generator(np.random.Philox(key=7))
    inputs = np.zeros((40, imdb.LENGTH), np.int32)
    for row in inputs:
        length = int(rng.integers(5, 40))
        row[-length:] = rng.integers(imdb.FIRST, imdb.VOCABULARY, length)
    data = Dataset("invented", inputs, rng.integers(0, 2, 40), imdb.DOMAIN)
    return classification_task(Transformer, (data, data), Options(batch_size=8))

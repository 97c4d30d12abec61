"""The leaf by its description in docs/trace-format.md, section 8, and what examples add to the sums."""

from __future__ import annotations

import hashlib
import struct

import numpy as np
import pytest
import torch

from trainwitness import Numerics, Stepper, TaskSpec, build_task
from trainwitness.core.errors import UsageError
from trainwitness.experiments.golden import zoo_task
from trainwitness.training.exact.contributions import last_bits

EXACT = Numerics(precision="exact", threads=1)


def described(step: int, arrays: list[tuple[str, np.ndarray]]) -> bytes:
    sha = hashlib.sha256(b"trainwitness/exact-step/1\0" + struct.pack("<Q", step))
    for name, array in arrays:
        dtype = array.dtype.name.encode()
        sha.update(struct.pack("<I", len(name.encode())) + name.encode())
        sha.update(bytes([len(dtype)]) + dtype + bytes([array.ndim]) + struct.pack(f"<{array.ndim}Q", *array.shape))
        content = array.tobytes()
        for at in range(0, max(len(content), 1), 1 << 20):
            sha.update(hashlib.sha256(content[at : at + (1 << 20)]).digest())
    return sha.digest()


@pytest.mark.parametrize(
    "task", [zoo_task, lambda: build_task(TaskSpec(name="lenet-digits", options={"accumulate": 2}))]
)
def test_the_leaf_is_as_described(task: object) -> None:
    built = task()  # type: ignore[operator]
    stepper = Stepper(built, EXACT)
    stepper.run(built.schedule.batch(0))
    arrays: list[tuple[str, np.ndarray]] = []
    for number, witness in enumerate(stepper.witnesses):
        assert witness.outputs is not None
        arrays.append((f"{number}/outputs", witness.outputs.numpy() + 0.0))
        arrays += [(f"{number}/{c}/{part}", witness.sums[c, part].numpy()) for c, part in sorted(witness.sums)]
    state = stepper.state().tensors
    arrays += [(name, state[name].numpy()) for name in sorted(state)]
    assert not any(np.signbit(a[a == 0]).any() for name, a in arrays if name[0].isdigit())
    assert stepper.leaf(0) == described(0, arrays)


def test_the_sums_times_one_over_b_are_the_gradients() -> None:
    task = build_task("softmax-digits")
    stepper = Stepper(task, EXACT)
    stepper.run(task.schedule.batch(0))
    (call, _), *_ = sorted(stepper.witnesses[0].sums)
    sums = stepper.witnesses[0].sums[call, "weight"]
    weight = dict(stepper.live.model.named_parameters())["1.weight"]
    assert torch.equal(sums[0] + sums[1], weight.grad)


def test_contributions_add_up_modulo_two() -> None:
    """The last bits of the unrounded sum, in its own unit, are those of the examples' contributions together."""
    task = build_task(TaskSpec(name="softmax-digits", options={"batch_size": 30}))
    stepper = Stepper(task, EXACT)
    state, rows = stepper.state(), list(range(30))
    columns = 10 * 784
    bits = last_bits(stepper, state, rows, columns)
    assert bits.shape == (30, columns)
    held = next(iter(stepper.witnesses[0].operands.values()))
    finest = stepper.witnesses[0].sums[0, "weight"][-1]
    whole = (finest / (held.error_unit * held.row_unit)).to(torch.int64)
    assert torch.equal(whole.double() * held.error_unit * held.row_unit, finest)
    from trainwitness.core.seeds import derive, permutation

    order = permutation(derive(0, "columns", 0), columns)
    assert np.array_equal(bits.sum(0) % 2, (whole % 2).flatten().numpy()[order])


def test_a_model_without_lines_per_example_has_no_certificate() -> None:
    task = zoo_task()
    stepper = Stepper(task, EXACT)
    found = last_bits(stepper, stepper.state(), list(range(20)), 50)
    assert found.shape == (20, 100), "the two linear layers of the head see one line per example"
    with pytest.raises(UsageError, match="digest per step"):
        Stepper(task, Numerics()).leaf(0)

"""DLG's network: what its gradient can hold at most, against the rank of the derivative."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from trainwitness import TaskSpec, build_task
from trainwitness.tasks.builtin.sigmoid import equations, sigmoid_net


@pytest.mark.parametrize(("width", "count", "channels"), [(2, 2, 3), (2, 3, 3), (3, 3, 3), (2, 4, 1), (4, 4, 1)])
def test_the_gradient_holds_at_most_so_many_numbers(width: int, count: int, channels: int) -> None:
    torch.manual_seed(0)
    net = sigmoid_net(width, channels=channels, side=8, classes=20).double()
    parameters = {name: torch.rand_like(tensor) - 0.5 for name, tensor in net.named_parameters()}
    inputs, labels = torch.rand(count, channels, 8, 8, dtype=torch.float64), torch.randperm(20)[:count]

    def gradient(moved: torch.Tensor) -> torch.Tensor:
        def loss(changed: dict[str, torch.Tensor]) -> torch.Tensor:
            return F.cross_entropy(torch.func.functional_call(net, changed, (moved,)), labels)

        found = torch.func.grad(loss)(parameters)
        return torch.cat([part.flatten() / part.norm() for part in found.values()])

    values = torch.linalg.svdvals(torch.func.jacfwd(gradient)(inputs).flatten(1))
    rank = int((values > 1e-11 * values[0]).sum())
    assert rank <= equations(width, count, channels=channels, side=8)
    assert rank >= min(inputs.numel(), equations(width, count, channels=channels, side=8)) * 0.7


def test_width_is_the_number_of_channels() -> None:
    for width in (12, 5):
        task = build_task(TaskSpec(name="sigmoid-digits", options={"width": width}))
        assert [layer.out_channels for layer in task.model() if isinstance(layer, torch.nn.Conv2d)] == [width] * 3
    assert build_task("sigmoid-digits").model()[0].out_channels == 12

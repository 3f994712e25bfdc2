"""Hooks of optimizers, and what GradScaler asks them."""

from typing import Any

import torch
from torch import nn

from burnlike._torch_compat import optimizers


def test_after_pre_hooks() -> None:
    optimizer = torch.optim.SGD([torch.ones(2)])
    optimizer.register_load_state_dict_pre_hook(lambda it, given: {**given, "state": it})
    given = {"state": None}
    assert optimizers.after_pre_hooks(optimizer, given)["state"] is optimizer
    assert given["state"] is None


def test_run_post_hooks() -> None:
    called: list[Any] = []
    optimizer = torch.optim.SGD([torch.ones(2)])
    optimizer.register_load_state_dict_post_hook(called.append)
    optimizers.run_post_hooks(optimizer)
    assert called == [optimizer]


def test_that_unscale() -> None:
    """`_step_supports_amp_scaling`, which `TorchOptimizer` sets."""
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)  # pyright: ignore[reportPrivateImportUsage]
    given: list[float] = []

    class Noting(torch.optim.SGD):
        _step_supports_amp_scaling = True

        def step(self, closure: Any = None) -> None:
            given.append(self.grad_scale.item())  # pyright: ignore[reportAttributeAccessIssue]

    leaf = nn.Parameter(torch.ones(2))
    scaler.scale(leaf.sum()).backward()
    scaler.step(Noting([leaf]))
    assert given == [4.0]

"""Modules that are not of `burnlike.mlax`, in float64, and what the tests ask about them."""

import copy
from typing import Any

import torch
from torch import Tensor, nn

import burnlike as bl


def batch_norm_net() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Tanh(), nn.Linear(4, 2)).double()


def frozen_net() -> nn.Sequential:
    net = batch_norm_net()
    net[0].weight.requires_grad_(False)
    return net


class Mixed(bl.Module):
    """A burnlike module with a list of layers, a tied weight, whole numbers and a buffer that is not saved."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = [bl.nn.LinearConfig(d_input=3, d_output=3).init() for _ in range(2)]
        self.layers[1].weight = self.layers[0].weight
        self.factor = bl.Param.from_data([1.0, 2.0, 3.0])
        self.offset = bl.Param.from_data([1, 2, 3])
        self.register_buffer("position", torch.arange(3), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = torch.tanh(layer(x))
        return x * self.factor + self.offset + self.position


def mixed_net() -> Mixed:
    torch.manual_seed(0)
    return Mixed().double()


class InPlace(nn.Module):
    """Changes its state in place, assigns a new tensor to another one, and counts in a plain number."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(2, dtype=torch.float64))
        self.register_buffer("steps", torch.zeros((), dtype=torch.float64))
        self.register_buffer("mean", torch.zeros(2, dtype=torch.float64))
        self.register_buffer("cache", torch.zeros(2, dtype=torch.float64), persistent=False)
        self.calls = 0
        self.history: list[Any] = []

    def forward(self, x: Tensor) -> Tensor:
        self.steps.add_(1)
        self.mean = self.mean * 0.5 + x.mean(0)
        self.cache.fill_(3.0)
        self.calls = self.calls + 1
        return x * self.weight + self.steps


class Doubled(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return 2 * x


def parametrized_net() -> nn.Module:
    torch.manual_seed(0)
    net = nn.Linear(3, 3).double()
    nn.utils.parametrize.register_parametrization(net, "weight", Doubled())
    return net


NETS = {
    "batch_norm": batch_norm_net,
    "frozen": frozen_net,
    "mixed": mixed_net,
    "in_place": InPlace,
    "parametrized": parametrized_net,
}


def batch(net: nn.Module, count: int = 5) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    width = 2 if isinstance(net, InPlace) else 3
    return torch.randn(count, width, dtype=torch.float64, generator=generator)


def snapshot(module: nn.Module) -> dict[str, tuple[Tensor, Tensor]]:
    """Each tensor itself, and a copy of its values."""
    found = dict(module.named_parameters(remove_duplicate=False)) | dict(module.named_buffers(remove_duplicate=False))
    return {name: (tensor, tensor.detach().clone()) for name, tensor in found.items()}


def assert_untouched(module: nn.Module, before: dict[str, tuple[Tensor, Tensor]]) -> None:
    """The same tensor objects with the same bits, and nothing of a transform in what the module refers to."""
    after = snapshot(module)
    assert after.keys() == before.keys()
    for name, (tensor, values) in before.items():
        assert after[name][0] is tensor, name
        assert torch.equal(after[name][1], values), name
        assert tensor.grad_fn is None, name
    assert_no_traced_tensor(module)


def assert_no_traced_tensor(module: nn.Module) -> None:
    for part in module.modules():
        for name, value in vars(part).items():
            held = value if isinstance(value, list | tuple) else value.values() if isinstance(value, dict) else [value]
            traced = [torch._C._functorch.is_functorch_wrapped_tensor(it) for it in held if isinstance(it, Tensor)]
            assert not any(traced), name
    copy.deepcopy(module)


def reference_gradients(module: nn.Module, x: Tensor) -> dict[str, Tensor]:
    """What `backward` of torch gives for the mean square of the output, on a copy."""
    copied = copy.deepcopy(module)
    output = copied(x)
    (output[0] if isinstance(output, tuple) else output).pow(2).mean().backward()
    return {name: param.grad for name, param in copied.named_parameters() if param.grad is not None}


def loss(t: nn.Module, n: nn.Module, x: Tensor) -> tuple[Tensor, nn.Module]:
    y, module = bl.func.fwd(t, n, x=x)
    return y.pow(2).mean(), module


def loss_alone(t: nn.Module, n: nn.Module, x: Tensor) -> Tensor:
    return loss(t, n, x)[0]

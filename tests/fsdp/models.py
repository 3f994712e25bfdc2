"""Sharded models, in each state that a training program meets, and what one process computes."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

from burnlike.module import Module


class Net(nn.Module):
    """Parameters of the root itself, of children, and of one that is sharded apart; sizes that two can't share."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.empty(3))
        self.first = nn.Linear(4, 7)
        self.inner = nn.Sequential(nn.Linear(7, 5), nn.Tanh())
        self.last = nn.Linear(5, 3)
        fill(self)

    def forward(self, x: Tensor) -> Tensor:
        """`[batch, 4] -> [batch, 3]`."""
        return self.last(self.inner(self.first(x).tanh())) * self.scale


class BurnlikeNet(Module):
    """The same as a burnlike Module, whose attributes are set by a function of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.empty(3))
        self.first = nn.Linear(4, 7)
        self.inner = nn.Sequential(nn.Linear(7, 5), nn.Tanh())
        self.last = nn.Linear(5, 3)
        fill(self)

    def forward(self, x: Tensor) -> Tensor:
        """`[batch, 4] -> [batch, 3]`."""
        return self.last(self.inner(self.first(x).tanh())) * self.scale


class TiedNet(nn.Module):
    """An embedding that is the matrix of the output, too."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(5, 4)
        self.inner = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
        self.head = nn.Linear(4, 5, bias=False)
        self.head.weight = self.embedding.weight
        fill(self)

    def forward(self, x: Tensor) -> Tensor:
        """`[batch, 4] -> [batch, 5]`; what is embedded are the signs of `x`."""
        return self.head(self.inner(self.embedding((x > 0).long()).sum(1)))


def fill(model: nn.Module, seed: int = 3) -> nn.Module:
    """Values that depend on the seed alone, in float64."""
    generator = torch.Generator().manual_seed(seed)
    model.double()
    with torch.no_grad():
        for param in model.parameters():
            param.copy_(torch.randn(param.shape, generator=generator))
    return model


def _nested(model: Any, **options: Any) -> Any:
    fully_shard(model.inner, **options)
    return fully_shard(model, **options)


WRAPPINGS: Mapping[str, Callable[[], Any]] = {
    "root": lambda: fully_shard(Net()),
    "nested": lambda: _nested(Net()),
    "nested, gathered until backward": lambda: _nested(Net(), reshard_after_forward=False),
    "nested, resharded at once": lambda: _nested(Net(), reshard_after_forward=True),
    "burnlike": lambda: _nested(BurnlikeNet()),
    "tied": lambda: _nested(TiedNet()),
    "replicas of parts": lambda: _nested(Net(), mesh=init_device_mesh("cpu", (2, 1), mesh_dim_names=("r", "s"))),
    "parts of one replica": lambda: _nested(Net(), mesh=init_device_mesh("cpu", (1, 2), mesh_dim_names=("r", "s"))),
}


WRAPPINGS_OF_TRAINING: Mapping[str, Callable[[], Any]] = {
    **WRAPPINGS,
    "copies of float32": lambda: _nested(Net(), mp_policy=MixedPrecisionPolicy(torch.float32, torch.float32)),
}


def batch(step: int, rank: int | None = None) -> Tensor:
    """`[6, 4]`, or the `[3, 4]` of one rank."""
    x = torch.randn(6, 4, generator=torch.Generator().manual_seed(step), dtype=torch.float64)
    return x if rank is None else x[3 * rank : 3 * rank + 3]


def own_batch(step: int) -> Tensor:
    """The part of this rank."""
    return batch(step, dist.get_rank())


def loss_of(model: nn.Module, x: Tensor) -> Tensor:
    """The mean over items, so that the mean over ranks is the loss of all items."""
    return (model(x) - 1).square().mean()


def before_a_forward(model: nn.Module) -> None:
    """Nothing has run since the last backward pass."""


def after_a_forward(model: nn.Module) -> None:
    """A backward pass could follow."""
    loss_of(model, own_batch(90))


def after_a_forward_without_grad(model: nn.Module) -> None:
    """An evaluation has run."""
    with torch.no_grad():
        loss_of(model, own_batch(91))


def after_an_unshard(model: Any) -> None:
    """The program has gathered the parameters itself."""
    model.unshard()


def after_a_backward(model: nn.Module) -> None:
    """A whole step has run but for the optimizer's."""
    before = [(param, param.grad) for param in model.parameters()]  # sharded, as nothing else runs before
    for param, _ in before:
        param.grad = None
    loss_of(model, own_batch(92)).backward()
    for param, grad in before:
        param.grad = grad


STATES: Mapping[str, Callable[[nn.Module], None]] = {
    "before a forward": before_a_forward,
    "after a forward": after_a_forward,
    "after a forward without grad": after_a_forward_without_grad,
    "after an unshard": after_an_unshard,
    "after a backward": after_a_backward,
}


def whole(tensor: Any) -> Tensor:
    """All of a DTensor."""
    return tensor.detach().full_tensor() if hasattr(tensor, "full_tensor") else tensor.detach()


def alone(values: Mapping[str, Tensor], model: nn.Module) -> nn.Module:
    """A model of one process with these values."""
    model.load_state_dict(dict(values))
    return model

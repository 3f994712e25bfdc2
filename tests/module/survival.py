"""The matrix of what survives what: models, and the columns that each row of `test_survival.py` is held against.

The rows that need ranks are run by `ranks_worker.py`, in the processes that `test_ranks.py` starts.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from burnlike.module import Module, ModuleVec, params
from burnlike.optim import AdamWConfig, GradientsParams, OptimizerAdaptor

WIDTH = 4


def pass_through(module: nn.Module, x: Tensor) -> Tensor:
    """Apply all children in their order, whatever they are called."""
    for child in module.children():
        x = pass_through(child, x) if isinstance(child, nn.ModuleList | ModuleVec) else child(x)
    return x


class PlainNet(nn.Module):
    """`inner` and `head` share a weight, the bias of `body` is frozen, `norm` has running statistics."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(WIDTH, WIDTH, bias=False)
        self.body = nn.Linear(WIDTH, WIDTH)
        self.norm = nn.BatchNorm1d(WIDTH)
        self.layers = nn.ModuleList([nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)])
        self.head = nn.Linear(WIDTH, WIDTH, bias=False)
        self.head.weight = self.inner.weight
        self.body.bias.requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        return pass_through(self, x)


class Dense(Module):
    """A burnlike layer."""

    def __init__(self, bias: bool = True) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(WIDTH, WIDTH) / WIDTH)
        self.bias = nn.Parameter(torch.zeros(WIDTH)) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        return functional.linear(x, self.weight, self.bias)


class Norm(Module):
    """Running statistics of a burnlike layer."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("running_mean", torch.zeros(WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        return x - self.running_mean.to(x.dtype)


class BurnlikeNet(Module):
    """As PlainNet."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = Dense(bias=False)
        self.body = Dense()
        self.norm = Norm()
        self.layers = [Dense(), Dense()]
        self.head = Dense(bias=False)
        self.head.weight = self.inner.weight
        self.body.bias.requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        return pass_through(self, x)


NETS: dict[str, Callable[[], Any]] = {"plain": PlainNet, "burnlike": BurnlikeNet}


@dataclass(frozen=True)
class Row:
    """An operation, and the columns that it leaves as they were; a text says why torch's own doing excludes one.

    Attributes:
        name: of the operation.
        change: does it and returns the module to go on with.
        moved: old path -> new path.
        new: the paths of tensors that were not there before.
        gone: the paths of tensors that are no more.
        tie: whether inner.weight and head.weight are still one.
        trainable: whether the frozen bias is frozen, and all else trainable.
        steps: whether the optimizer can go on with its states.
    """

    name: str
    change: Callable[[Any], Any]
    moved: Mapping[str, str] = field(default_factory=dict)
    new: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    tie: bool | str = True
    trainable: bool | str = True
    steps: bool | str = True

    def path(self, before: str) -> str:
        """Where the tensor at `before` is afterwards."""
        return self.moved.get(before, before)


def ids(module: nn.Module) -> dict[str, str]:
    """The id at every path, those of tied tensors included."""
    return {path: str(param.id) for param in params(module) for path in (param.path, *param.aliases)}


def step(module: nn.Module, optimizer: OptimizerAdaptor[Any]) -> None:
    """One step of training."""
    x = torch.linspace(-1, 1, 3 * WIDTH).reshape(3, WIDTH).to(next(module.parameters()).dtype)
    module(x).square().mean().backward()
    optimizer.step(1e-3, module, GradientsParams.from_module(module))


def times(optimizer: OptimizerAdaptor[Any]) -> dict[str, int]:
    """How many steps the state of each id has seen."""
    values = optimizer.to_record().values["states"]
    return {name.partition(".")[0]: count for name, count in values.items() if name.endswith(".time")}


def check(row: Row, net: str, assigned: str) -> None:
    """Hold a row against its columns.

    Args:
        row: the operation.
        net: which model.
        assigned: `before` if the ids are known and an optimizer has states before the operation; `after`: only then.
    """
    model, optimizer = NETS[net](), AdamWConfig().init()
    known: dict[str, str] = {}
    if assigned == "before":
        known = ids(model)
        step(model, optimizer)
    changed = row.change(model)
    found = ids(changed)
    assert ids(changed) == found, "another traversal gives the same ids"
    assert len(set(found.values())) == len(params(changed))
    _check_ids(row, known, found)
    _check_tie(row, changed)
    _check_trainable(row, changed)
    _check_state(row, changed, optimizer, found, known)


def _check_ids(row: Row, known: dict[str, str], found: dict[str, str]) -> None:
    kept = {path: row.path(path) for path in known if path not in row.gone}
    if row.tie is not True:
        kept.pop("head.weight", None)
    for before, after in kept.items():
        assert found[after] == known[before], f"{before} has the id it had"
    if known:
        fresh = set(found) - set(kept.values())
        assert fresh == {*row.new, *({"head.weight"} if row.tie is not True else ())}, "nothing else is new"
        assert not {found[path] for path in fresh} & set(known.values())


def _check_tie(row: Row, changed: nn.Module) -> None:
    tied = [{param.path, *param.aliases} for param in params(changed) if param.aliases]
    assert tied == ([{"inner.weight", "head.weight"}] if row.tie is True else []), row.tie


def _check_trainable(row: Row, changed: nn.Module) -> None:
    frozen = [param.path for param in params(changed, "weight") if not param.trainable]
    assert (frozen == [row.path("body.bias")]) == (row.trainable is True), (row.trainable, frozen)


def _check_state(
    row: Row, changed: nn.Module, optimizer: OptimizerAdaptor[Any], found: dict[str, str], known: dict[str, str]
) -> None:
    stateless = {"body.bias", *row.gone, *(() if row.tie is True else ("head.weight",))}
    before = {row.path(path) for path in known if path not in stateless}
    learned = before & {param.path for param in params(changed, "weight")}
    seen = times(optimizer)
    for path in learned:
        assert seen[found[path]] == 1, f"the state of {path} is found by its id"
    if row.steps is not True:
        return
    step(changed, optimizer)
    if not known:
        step(changed, optimizer)
    seen = times(optimizer)
    for param in params(changed, "weight"):
        if param.trainable:
            expected = 2 if param.path in learned or not known else 1
            assert seen[str(param.id)] == expected, f"the optimizer went on with the state of {param.path}"

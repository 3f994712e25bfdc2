"""Records of torch's optimizers and of ours, each loaded by the other."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from burnlike import interop, optim
from burnlike.errors import RecordMismatchError
from burnlike.module import clone
from tests.record.interface_cases import OfAdaptor, OfTorch, OfTorchByPlace, X, model_of

PAIRS: dict[str, tuple[Callable[..., torch.optim.Optimizer], Any]] = {
    "AdamW": (
        lambda it: torch.optim.AdamW(it, lr=0.1, eps=1e-8),
        optim.AdamWConfig(epsilon=1e-8, weight_decay=1e-2),
    ),
    "SGD": (
        lambda it: torch.optim.SGD(it, lr=0.1, momentum=0.8),
        optim.SgdConfig(momentum=optim.MomentumConfig(momentum=0.8, dampening=0.0)),
    ),
    "RMSprop": (
        lambda it: torch.optim.RMSprop(it, lr=0.1, eps=1e-6, momentum=0.8, centered=True),
        optim.RmsPropConfig(epsilon=1e-6, momentum=0.8, centered=True),
    ),
    "Adagrad": (
        lambda it: torch.optim.Adagrad(it, lr=0.1, eps=1e-8, lr_decay=0.1),
        optim.AdaGradConfig(epsilon=1e-8, lr_decay=0.1),
    ),
}


def stepped(model: nn.Module, optimizer: Any, steps: int = 2) -> list[Any]:
    for _ in range(steps):
        model(X.double()).square().sum().backward()
        if isinstance(optimizer, torch.optim.Optimizer):
            optimizer.step()
            optimizer.zero_grad()
        else:
            optimizer.step(0.1, model, optim.GradientsParams.from_module(model))
    return [it.tolist() for it in model.parameters()]


@pytest.mark.parametrize("name", PAIRS)
def test_torchs_optimizer_goes_on_from_our_record(name: str) -> None:
    theirs, config = PAIRS[name]
    model, ours = model_of(1).double(), config.init()
    stepped(model, ours, 3)
    twin = clone(model)
    follower = theirs(reversed([*twin.parameters()]))
    report = optim.load_torch_record(follower, ours.to_record(), twin)
    assert len(report.by_id) == 4
    for one, other in zip(stepped(model, ours), stepped(twin, follower), strict=True):
        assert torch.allclose(torch.tensor(one), torch.tensor(other), rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", PAIRS)
def test_our_optimizers_go_on_from_torchs_record(name: str) -> None:
    theirs, config = PAIRS[name]
    model = model_of(1).double()
    torchs = theirs(model.parameters())
    stepped(model, torchs, 3)
    record = optim.torch_record(torchs, model)
    twin, third = clone(model), clone(model)
    follower = config.init().load_record(record, twin)
    facade = interop.TorchOptimizer(third, config, lr=0.1).load_record(record)
    expected = stepped(model, torchs)
    for found in (stepped(twin, follower), stepped(third, facade)):
        for one, other in zip(expected, found, strict=True):
            assert torch.allclose(torch.tensor(one), torch.tensor(other), rtol=0, atol=1e-12)


def test_states_of_another_rule_or_shape_are_refused_across_the_two() -> None:
    case = OfAdaptor(1)
    case.go()
    record = case.it.into_record()
    sgd = torch.optim.SGD(case.model.parameters(), lr=0.1)
    with pytest.raises(RecordMismatchError, match=r"'momentum\.moment_1' of .* is no field of SGD's states"):
        optim.load_torch_record(sgd, record, case.model)
    with pytest.raises(RecordMismatchError, match="expected one of torch's"):
        optim.load_torch_record(torch.optim.Adamax(case.model.parameters()), record, case.model)
    wide = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 2))
    with pytest.raises(RecordMismatchError, match=r"0\.weight: expected \[5, 3\], got \[4, 3\]"):
        optim.load_torch_record(torch.optim.AdamW(wide.parameters()), record, wide)
    adam = OfTorch(1)
    adam.go()
    with pytest.raises(RecordMismatchError, match="none of Sgd"):
        optim.SgdConfig(momentum=optim.MomentumConfig()).init().load_record(optim.torch_record(adam.it, adam.model))


def test_a_record_by_places_and_one_by_names_are_not_taken_for_each_other() -> None:
    named, placed = OfTorch(1), OfTorchByPlace(1)
    placed.go()
    with pytest.raises(RecordMismatchError, match="no parameter has that id or path"):
        optim.load_torch_record(placed.it, optim.torch_record(placed.it, placed.model))
    with pytest.raises(RecordMismatchError, match="no parameter has that id or path"):
        optim.load_torch_record(placed.it, optim.torch_record(placed.it), placed.model)
    named.go()
    optim.load_torch_record(named.it, optim.torch_record(named.it), named.model)
    optim.load_torch_record(named.it, optim.torch_record(named.it, named.model))

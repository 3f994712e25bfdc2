"""What burnlike keeps about modules holds nothing alive and does not grow for ever."""

import gc
import weakref
from typing import Any

import pytest
import torch
from torch import nn

from burnlike.errors import ModuleTreeError
from burnlike.interop import TorchOptimizer
from burnlike.module import Module, params, visit
from burnlike.module.identity.param_id import MOST_COUNTED, IdSource
from burnlike.module.transforms.visiting import param_at
from burnlike.module.tree.walk import weights
from burnlike.optim import AdamWConfig, GradientsParams


class Net(Module):
    def __init__(self) -> None:
        super().__init__()
        self.big = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
        self.small = nn.Linear(4, 1)
        self.others = [nn.Linear(4, 4)]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.big(x) if hasattr(self, "big") else x
        return self.small(self.others[0](x))


def plain() -> nn.Module:
    net: Any = nn.Module()
    net.big, net.small = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)), nn.Linear(4, 1)
    return net


@pytest.mark.parametrize("make", [plain, Net])
@pytest.mark.parametrize("use", [params, weights, lambda m: visit(m, lambda param: None), lambda m: m.state_dict()])
def test_what_is_removed_from_a_tree_is_free_at_once(make: Any, use: Any) -> None:
    net = make()
    use(net)
    gone = [weakref.ref(net.big), weakref.ref(net.big[0].weight), weakref.ref(net.big[1].running_mean)]
    gc.disable()  # without a collection, and before another traversal
    try:
        del net.big
        assert [reference() for reference in gone] == [None] * 3
    finally:
        gc.enable()
    assert not [param.path for param in params(net) if param.path.startswith("big")]


def test_an_optimizer_does_not_keep_a_removed_layer_alive() -> None:
    net = Net()
    optimizer = AdamWConfig().init()
    x = torch.ones(3, 4)
    for _ in range(2):
        net(x).sum().backward()
        optimizer.step(0.1, net, GradientsParams.from_module(net))
    gone = [weakref.ref(net.big), weakref.ref(net.big[0].weight)]
    del net.big
    gc.collect()
    assert [reference() for reference in gone] == [None] * 2
    net(x).sum().backward()
    optimizer.step(0.1, net, GradientsParams.from_module(net))


def test_a_torch_optimizer_follows_when_a_layer_is_removed() -> None:
    net = Net()
    optimizer = TorchOptimizer(net, AdamWConfig(), lr=0.1)
    for removed in (False, True):
        if removed:
            del net.big
        optimizer.zero_grad()
        net(torch.ones(3, 4)).sum().backward()
        optimizer.step()
    assert len(optimizer.param_groups[0]["params"]) == 4


def test_a_param_of_a_removed_layer_still_reads_it() -> None:
    net = Net()
    param = param_at(net, "big.0.weight")
    expected = net.big[0].weight
    del net.big
    assert param.tensor is expected


def test_a_kept_param_whose_module_is_gone_says_so() -> None:
    net = Net()
    kept = weights(net)[0]
    del net.big
    gc.collect()
    with pytest.raises(ModuleTreeError, match=r"the module that held 'big\.0\.weight' is gone"):
        _ = kept.tensor


def test_a_new_module_at_the_address_of_a_removed_one_is_seen() -> None:
    net = nn.Sequential(nn.Linear(2, 2))
    seen = {int(params(net)[0].id)}
    for count in range(2, 20):
        del net[0]
        net.append(nn.Linear(2, 2))
        seen.add(int(params(net)[0].id))
        assert len(seen) == count


def test_drawing_ids_does_not_grow_for_ever() -> None:
    def drawn() -> list[int]:
        source = IdSource()
        source.seed("a test")
        numbers = [source.draw(f"shape {number}") for number in range(MOST_COUNTED + 1000)]
        assert len(source._met) <= MOST_COUNTED
        return [*numbers, source.draw("shape 0"), source.draw("shape 0")]

    first = drawn()
    assert len(set(first)) == len(first), "what was drawn before is not drawn again"
    assert drawn() == first, "ranks that draw alike agree"


def test_models_that_are_gone_leave_nothing_behind() -> None:
    from burnlike.module.tree import walk

    def use() -> None:
        for _ in range(50):
            list(params(Net()))
            weights(nn.Sequential(nn.Linear(2, 2)))

    use()
    gc.collect()
    before = len(walk._WALKS)
    use()
    gc.collect()
    assert len(walk._WALKS) == before

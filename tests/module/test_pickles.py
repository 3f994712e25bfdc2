"""What burnlike keeps about modules: plain data in pickles, nothing that is kept alive or grows for ever."""

import gc
import io
import pickle
import pickletools
import subprocess
import sys
import weakref
from pathlib import Path
from typing import Any

import pytest
import torch
from msgspec._utils import rebuild
from torch import nn

import burnlike.nn
from burnlike.errors import ModuleTreeError
from burnlike.func import stack, unstack
from burnlike.interop import TorchOptimizer
from burnlike.module import Module, Param, fresh_ids, params, valid, visit
from burnlike.module.identity.param_id import MOST_COUNTED, IdSource
from burnlike.module.transforms.mapping import param_at
from burnlike.module.tree.walk import weights
from burnlike.optim import AdamWConfig, GradientsParams

from .fields import ids


class Block(Module):
    """A burnlike module with what it may hold: a list, a label, a constant, a tie, a running statistic."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = [nn.Linear(2, 2), nn.Linear(2, 2)]
        self.scale = Param.from_data([1.0, 2.0], name="scale")
        self.seen = Param.running(torch.zeros(2))
        self.tied = self.scale
        self.width = 2
        self.sizes = [1, 2]


def saved(value: Any) -> io.BytesIO:
    file = io.BytesIO()
    torch.save(value, file)
    file.seek(0)
    return file


def classes_of(module: nn.Module) -> list[Any]:
    return list({type(part) for part in module.modules()})


def tied() -> Any:
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2), nn.BatchNorm1d(2))
    model[1].weight = model[0].weight
    return model


def moved() -> Any:
    model = tied()
    params(model)
    new = nn.Linear(2, 2)
    new.weight = model[0].weight
    model[0] = new
    return model


def after_valid() -> nn.Module:
    return valid(tied())


MODELS = [tied, moved, after_valid, Block, lambda: stack([nn.Linear(2, 2) for _ in range(2)])]


@pytest.mark.parametrize("make", MODELS)
def test_a_module_whose_ids_are_drawn_loads_by_weights_only(make: Any) -> None:
    model = make()
    known = ids(model)
    with torch.serialization.safe_globals(classes_of(model)):
        loaded = torch.load(saved(model), weights_only=True)
    assert ids(loaded) == known
    assert [param.aliases for param in params(loaded)] == [param.aliases for param in params(model)]
    assert [param.trainable for param in params(loaded)] == [param.trainable for param in params(model)]
    assert [param.name for param in params(loaded)] == [param.name for param in params(model)]
    again = pickle.loads(pickle.dumps(loaded))
    assert ids(again) == known
    fresh_ids(again)
    assert not set(ids(again).values()) & set(known.values())


def test_a_stack_of_modules_that_was_loaded_knows_its_members() -> None:
    members = [nn.Linear(2, 2) for _ in range(2)]
    known = [ids(member) for member in members]
    stacked = stack(members)
    with torch.serialization.safe_globals([nn.Linear]):
        loaded = torch.load(saved(stacked), weights_only=True)
    assert [ids(member) for member in unstack(loaded)] == known


def test_a_pickled_module_names_nothing_of_burnlikes() -> None:
    model = moved()
    params(model)
    names = [argument for _, argument, _ in pickletools.genops(pickle.dumps(model, 2)) if isinstance(argument, str)]
    assert not [name for name in names if name.startswith("burnlike")]


@pytest.mark.slow  # a process of its own, whose imports take seconds
def test_a_module_is_loaded_where_burnlike_is_not_imported(tmp_path: Path) -> None:
    model = tied()
    params(model)
    torch.save(model, tmp_path / "model.pt")
    program = (
        "import sys, torch; from torch import nn\n"
        "with torch.serialization.safe_globals([nn.Sequential, nn.Linear, nn.BatchNorm1d]):\n"
        "    model = torch.load(sys.argv[1], weights_only=True)\n"
        "assert model[0].weight is model[1].weight and 'burnlike' not in sys.modules"
    )
    subprocess.run([sys.executable, "-W", "ignore", "-c", program, str(tmp_path / "model.pt")], check=True)


def test_burnlikes_layers_load_by_weights_only() -> None:
    """A DecoderLm has one of each. Configs that it keeps are named as any class that is no tensor's."""
    sizes = {"vocab_size": 5, "d_model": 8, "d_ff": 8, "n_layers": 2, "n_heads": 2, "max_sequence_length": 4}
    model = burnlike.nn.DecoderLmConfig(**sizes, dropout=0.1).init()
    known = ids(model)
    configs = [burnlike.nn.DecoderLmConfig, burnlike.nn.RotaryEncodingConfig, burnlike.nn.SiLUConfig]
    parts = [burnlike.models.RotaryPositions, burnlike.models.GatedPart, rebuild]
    with torch.serialization.safe_globals([*classes_of(model), *configs, *parts]):
        loaded = torch.load(saved(model), weights_only=True)
    assert ids(loaded) == known


def test_a_parameter_of_its_own_loads_by_weights_only() -> None:
    layer = nn.Linear(2, 2)
    params(layer)
    (loaded,) = torch.load(saved([layer.weight]), weights_only=True)
    torch.testing.assert_close(loaded, layer.weight)
    assert isinstance(loaded, nn.Parameter)


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

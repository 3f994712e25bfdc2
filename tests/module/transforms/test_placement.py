"""Counting, moving and copying modules."""

import copy
import os
import sqlite3
import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import prune

from burnlike.errors import DeviceError, DuplicateParamIdError, ModuleTreeError
from burnlike.module import (
    Module,
    Param,
    clone,
    constant,
    devices,
    display,
    fork,
    fresh_ids,
    initialize,
    num_params,
    params,
    seed_param_ids,
    to_device,
)

from ..burn_layers import Basic, Composed
from ..cases import case


class Lazy(Module):
    """Counts how often its values were made."""

    def __init__(self) -> None:
        super().__init__()
        self.drawn: list[torch.device] = []
        self.weight = Param.uninitialized(self.init, [3, 2])

    def init(self, device: torch.device) -> Tensor:
        self.drawn.append(device)
        return torch.rand(3, 2, device=device)


def plain() -> nn.Module:
    return nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))


@case("num_params/basic")
def test_a_parameter_counts_its_values() -> None:
    assert Basic().num_params() == num_params(Basic()) == 400


@case("num_params/composed")
def test_all_parts_are_counted() -> None:
    assert Composed().num_params() == 1600


def test_num_params_counts_what_has_a_shape_and_is_what_display_shows() -> None:
    module = nn.Sequential(nn.LazyLinear(3), nn.Linear(2, 2, dtype=torch.complex64))
    assert num_params(module) == 6
    assert "params: 6" in display(module)


def test_running_statistics_count_and_whole_numbers_do_not() -> None:
    assert num_params(nn.BatchNorm1d(3)) == 12
    module = nn.Module()
    module.register_buffer("table", torch.zeros(5, dtype=torch.int64))
    module.register_buffer("passing", torch.zeros(5), persistent=False)
    assert num_params(module) == 0
    module.weight = nn.Parameter(torch.zeros(2, dtype=torch.complex64))
    assert num_params(module) == 2


def test_tied_tensors_and_shared_layers_count_once() -> None:
    model = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False))
    model.append(model[0])
    assert num_params(model) == 8
    model[1].weight = model[0].weight
    assert num_params(model) == 4


def test_lazy_parameters_are_counted_and_placed_without_values() -> None:
    module = Lazy()
    assert module.num_params() == 6
    assert module.devices() == [torch.device("cpu")]
    assert module.drawn == []
    assert initialize(module) is module
    assert len(module.drawn) == 1
    assert initialize(module).num_params() == 6
    assert len(module.drawn) == 1


def test_devices_are_each_named_once() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2, device="meta"), nn.Linear(2, 2))
    assert devices(model) == [torch.device("cpu"), torch.device("meta")]
    assert Module().devices() == []


def test_who_counts_draws_no_ids() -> None:
    def ids(count: bool) -> list[int]:
        seed_param_ids(1)
        model = plain()
        if count:
            assert num_params(model) == 21
            assert len(devices(model)) == 1
            initialize(model)
        assert not any("_burnlike" in module.__dict__ for module in model.modules())
        return [int(param.id) for param in params(model)]

    assert ids(count=True) == ids(count=False)


def test_to_device_is_in_place_and_keeps_leaves_trainable() -> None:
    model = plain()
    model[0].bias.requires_grad_(False)
    before = [param.id for param in params(model)]
    assert to_device(model, "meta") is model
    assert devices(model) == [torch.device("meta")]
    assert [param.id for param in params(model)] == before
    assert model[0].weight.is_leaf
    assert model[0].weight.requires_grad
    assert not model[0].bias.requires_grad
    with pytest.raises(DeviceError, match="got 'abacus'"):
        to_device(model, "abacus")
    module = Basic()
    assert module.to_device("cpu") is module


@pytest.mark.cuda
def test_fork_to_the_gpu_trains_there() -> None:
    module = Composed()
    other = module.fork("cuda")
    assert [device.type for device in other.devices()] == ["cuda"]
    other.weight.sum().backward()
    assert other.weight.grad is not None
    assert module.weight.grad is None


COPIES: dict[str, Callable[[Any], Any]] = {"clone": clone, "fork": lambda module: fork(module, "cpu")}


@pytest.mark.parametrize("copied", COPIES.values(), ids=COPIES)
@pytest.mark.parametrize("make", [plain, Composed], ids=["plain", "burnlike"])
def test_a_copy_has_the_ids_and_its_own_memory(copied: Callable[[Any], Any], make: Callable[[], nn.Module]) -> None:
    model = make()
    first = params(model, "weight")[0]
    first.set_require_grad(False)
    new = copied(model)
    assert type(new) is type(model)
    for ours, theirs in zip(params(new), params(model), strict=True):
        assert (ours.id, ours.path, ours.trainable) == (theirs.id, theirs.path, theirs.trainable)
        assert ours.tensor.data_ptr() != theirs.tensor.data_ptr()
        assert torch.equal(ours.tensor, theirs.tensor)
        assert ours.tensor.is_leaf


@pytest.mark.parametrize("copied", COPIES.values(), ids=COPIES)
def test_a_copy_of_a_plain_module_has_the_ids_that_the_original_gets(copied: Callable[[Any], Any]) -> None:
    model = plain()
    new = copied(model)
    assert [param.id for param in params(new)] == [param.id for param in params(model)]


def test_a_copy_that_lives_beside_the_original_has_new_ids() -> None:
    layer = Basic()
    model = nn.Sequential(layer, layer.clone())
    with pytest.raises(DuplicateParamIdError):
        params(model)
    model[1] = layer.clone(new_ids=True)
    assert len({param.id for param in params(model)}) == 2
    twins = nn.Sequential(layer, copy.deepcopy(layer))
    assert len(params(clone(twins, new_ids=True))) == 2
    assert fresh_ids(twins) is twins


def test_copies_keep_ties_and_lazy_copies_start_equal() -> None:
    model = Composed()
    model.basic.weight_basic = model.weight
    new = model.clone()
    assert new.basic.weight_basic is new.weight
    lazy = Lazy()
    twin = lazy.clone()
    assert lazy.drawn == []
    assert torch.equal(twin.weight, lazy.weight)
    assert twin.weight.data_ptr() != lazy.weight.data_ptr()


def test_of_wrappers_the_inner_module_is_copied() -> None:
    model = Composed()
    assert type(clone(torch.compile(model, backend="eager"))) is Composed
    assert type(fork(nn.DataParallel(model), "cpu")) is Composed
    assert num_params(nn.DataParallel(model)) == 1600


def test_a_pruned_module_is_copied_and_prunes_on() -> None:
    model = nn.Sequential(nn.Linear(2, 2), Composed())
    prune.l1_unstructured(model[0], "weight", 0.5)
    prune.l1_unstructured(model[1], "weight", 0.5)
    new = clone(model)
    assert [(param.path, param.id) for param in params(new)] == [(param.path, param.id) for param in params(model)]
    with torch.no_grad():
        new[0].weight_orig.fill_(3.0)
    new[0](torch.ones(1, 2)).sum().backward()
    assert torch.equal(new[0].weight_orig.grad, new[0].weight_mask)
    assert torch.equal(new[0].weight, 3 * model[0].weight_mask)
    assert model[0].weight_orig.grad is None
    assert (model[0].weight.grad_fn is not None, new[1].weight.grad_fn is None) == (True, True)


def generated() -> Any:
    yield 1


NOT_COPIED: dict[str, Callable[[], Any]] = {
    "connection": lambda: sqlite3.connect(":memory:"),
    "lock": threading.Lock,
    "file": lambda: open(os.devnull),  # noqa: SIM115
    "generator": generated,
    "in a list": lambda: [{"a": generated()}],
}


class Reader(Module):
    def __init__(self, source: Any) -> None:
        super().__init__()
        self.layer = nn.Linear(2, 2)
        self.source = source


@pytest.mark.parametrize("kind", NOT_COPIED)
@pytest.mark.parametrize("copied", [clone, lambda it: fork(it, "cpu")])
def test_a_field_that_cant_be_copied_is_named_and_shared_as_a_constant(kind: str, copied: Callable[..., Any]) -> None:
    source = NOT_COPIED[kind]()
    with pytest.raises(ModuleTreeError, match=r"the field '1\.source' of Sequential, .*burnlike.constant\(value\)"):
        copied(nn.Sequential(nn.Linear(2, 2), Reader(source)))
    model = Reader(constant(source))
    twin = copied(model)
    assert twin.source is source
    assert twin.layer.weight is not model.layer.weight
    if hasattr(source, "close"):
        source.close()


def test_a_plain_modules_field_that_cant_be_copied_is_named() -> None:
    model = nn.Linear(2, 2)
    model.lock = threading.Lock()
    with pytest.raises(ModuleTreeError, match=r"the field 'lock' of Linear, a lock, can't be copied"):
        clone(model)

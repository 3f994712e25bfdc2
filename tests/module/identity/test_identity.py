"""An id belongs to the parameter object as well as to its place: what moves an object takes the id along."""

import copy
from typing import Any

import pytest
import torch
from torch import nn

from burnlike.errors import DuplicateParamIdError
from burnlike.interop import TorchOptimizer
from burnlike.mlax import Module as MlaxModule, Parameter
from burnlike.module import Module, Param, ParamId, fresh_ids, params
from burnlike.nn import LinearConfig
from burnlike.optim import AdamWConfig

from ..fields import ids


class Holder(Module):
    """A burnlike module with one parameter."""

    def __init__(self, weight: Any) -> None:
        super().__init__()
        self.weight = weight


def plain_layers() -> Any:
    return nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))


def burnlike_layers() -> Any:
    return nn.Sequential(*(LinearConfig(d_input=2, d_output=2).init() for _ in range(2)))


LAYERS = pytest.mark.parametrize("make", [plain_layers, burnlike_layers])


@LAYERS
def test_a_parameter_that_is_moved_to_a_new_layer_keeps_its_id(make: Any) -> None:
    model = make()
    before = ids(model)
    new = make()[0]
    ids(new)
    new.weight = model[0].weight
    model[0] = new
    found = ids(model)
    assert found["0.weight"] == before["0.weight"]
    assert found["0.bias"] != before["0.bias"]
    assert ids(model) == found


@LAYERS
def test_parameters_that_change_places_keep_their_ids(make: Any) -> None:
    model = make()
    before = ids(model)
    model[0].weight, model[1].weight = model[1].weight, model[0].weight
    found = ids(model)
    assert (found["0.weight"], found["1.weight"]) == (before["1.weight"], before["0.weight"])


def test_conversion_to_sync_batch_norm_keeps_all_ids() -> None:
    model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    before = ids(model)
    converted: Any = nn.SyncBatchNorm.convert_sync_batchnorm(model)
    assert isinstance(converted[1], nn.SyncBatchNorm)
    assert ids(converted) == before


def test_a_parameter_of_another_module_brings_its_id() -> None:
    other = Holder(nn.Parameter(torch.ones(2)))
    ((_, known),) = ids(other).items()
    mine = Holder(nn.Parameter(torch.zeros(2)))
    assert ids(mine)["weight"] != known
    mine.weight = other.weight
    assert ids(mine)["weight"] == known
    (tied,) = params(nn.Sequential(mine, other))
    assert (int(tied.id), tied.aliases) == (known, ("1.weight",))
    mine.weight = nn.Parameter(torch.zeros(2))
    assert ids(other)["weight"] == known
    assert ids(nn.Sequential(mine, other))["0.weight"] != known, "the object that has the id keeps it"


def test_what_is_put_in_the_place_of_a_parameter_that_moved_away_gets_an_id_of_its_own() -> None:
    model = plain_layers()
    known = ids(model)["0.weight"]
    model[1].weight = model[0].weight
    model[0].weight = nn.Parameter(torch.zeros(2, 2))
    found = ids(model)
    assert found["1.weight"] == known
    assert found["0.weight"] != known
    assert ids(model) == found


def test_a_copied_layer_beside_its_original_is_still_an_error() -> None:
    model = plain_layers()
    model[0].weight = model[1].weight
    del model[1]
    params(model)
    converted = nn.Sequential(nn.SyncBatchNorm.convert_sync_batchnorm(nn.BatchNorm1d(2)))
    params(converted)
    for whole in (model, converted):
        whole.append(copy.deepcopy(whole[0]))
        with pytest.raises(DuplicateParamIdError):
            params(whole)
        fresh_ids(whole[1])
        assert len(set(ids(whole).values())) == len(params(whole)), "each has an id of its own"


def test_an_id_that_the_program_gives_is_the_objects() -> None:
    layer = nn.Linear(2, 2)
    params(layer)
    assert Param.from_tensor(layer.weight).id == params(layer)[0].id
    given = Holder(Param.from_tensor(layer.weight, id=ParamId(5)))
    assert ids(layer)["weight"] == ids(given)["weight"] == 5


def test_an_adopted_id_goes_along_with_the_object() -> None:
    layer, other = nn.Linear(2, 2), nn.Linear(2, 2)
    params(layer)[0].adopt(ParamId(7))
    other.weight = layer.weight
    assert ids(other)["weight"] == 7
    fresh_ids(layer)
    assert ids(other)["weight"] == ids(layer)["weight"] != 7


def test_a_buffer_that_is_assigned_to_another_name_leaves_the_id_with_its_place() -> None:
    class Tracking(Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("mean", torch.zeros(2))
            self.register_buffer("before", torch.zeros(2))

    models: list[Any] = [Tracking(), nn.BatchNorm1d(2)]
    for model in models:
        if isinstance(model, nn.BatchNorm1d):
            model.register_buffer("before", torch.zeros(2))
        first = ids(model)
        for _ in range(3):
            old = "mean" if isinstance(model, Tracking) else "running_mean"
            model.before = getattr(model, old)
            setattr(model, old, 0.9 * getattr(model, old))
            assert ids(model) == first


def test_mlax_handles_and_traversals_give_one_id() -> None:
    class Net(MlaxModule):
        def __init__(self, weight: Any) -> None:
            self.w = Parameter(True, weight)

    layer = nn.Linear(2, 2)
    known = params(layer)[0].id
    net = Net(layer.weight)
    assert net.w.id == params(net)[0].id == known


@LAYERS
def test_an_optimizer_goes_on_with_the_state_of_a_parameter_that_moved(make: Any) -> None:
    """As torch.optim does, which knows parameters by object."""
    torch.manual_seed(0)
    model = make()
    expected = copy.deepcopy(model)
    ours = TorchOptimizer(model, AdamWConfig(weight_decay=0.0), lr=0.1)
    theirs = torch.optim.AdamW(expected.parameters(), lr=0.1, weight_decay=0.0, eps=1e-5)
    x = torch.randn(4, 2)
    for index in range(6):
        for each, optimizer in ((model, ours), (expected, theirs)):
            if index == 3:
                new = make()[0]
                new.weight, new.bias = each[0].weight, each[0].bias
                each[0] = new
            optimizer.zero_grad()
            each(x).square().mean().backward()
            optimizer.step()
    for found, wanted in zip(model.parameters(), expected.parameters(), strict=True):
        torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize(
    "make",
    [lambda: nn.Linear(2, 2, bias=False), lambda: LinearConfig(d_input=2, d_output=2, bias=False).init()],
    ids=["torch", "burnlike"],
)
def test_a_parameter_that_moved_to_another_model_leaves_its_id_to_nobody(make: Any) -> None:
    teacher, student = make(), make()
    (before,) = [param.id for param in params(teacher)]
    student.weight = teacher.weight
    assert [param.id for param in params(student)] == [before]
    assert [param.id for param in params(copy.deepcopy(teacher))] == [before]  # a copy is no other parameter
    assert [param.id for param in params(teacher)] == [before]  # both have it
    teacher.weight = nn.Parameter(torch.zeros(2, 2))
    (after,) = [param.id for param in params(teacher)]
    assert after != before
    assert [param.id for param in params(student)] == [before]


def test_a_tool_that_replaces_a_shared_parameter_keeps_its_id() -> None:
    model = nn.ModuleDict({"head": nn.Linear(3, 5, bias=False), "table": nn.Embedding(5, 3)})
    (before,) = [param.id for param in params(model["table"])]
    model["head"].weight = model["table"].weight
    params(model["head"])  # alone, as another model
    assert [param.id for param in params(model)] == [before]
    model.to_empty(device="meta")  # which unties them
    assert [param.id for param in params(model["table"])] == [before]

"""Ids: Burn's text form, seeds, and that an id belongs to the parameter object as well as to its place."""

import copy
from typing import Any

import pytest
import torch
from torch import nn

from burnlike.errors import DuplicateParamIdError
from burnlike.interop import TorchOptimizer
from burnlike.mlax import Module as MlaxModule, Parameter
from burnlike.module import Module, Param, ParamId, fresh_ids, params, seed_param_ids
from burnlike.module.tree.walk import fingerprint_of_tree
from burnlike.nn import LinearConfig
from burnlike.optim import AdamWConfig

from ..cases import case
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


# Burn's text form: spec of v0.21.0, crates/burn-core/src/module/param/id.rs
BURN_TEXTS = [
    (0, "0000000000000"),
    (1, "0400000000000"),
    (123456, "83h0200000000"),
    (255, "vs00000000000"),
    (2**32, "0000000100000"),
    (2**63, "0000000000080"),
    (2**64 - 1, "vvvvvvvvvvvvu"),
    (0x65695FD4BB139A38, "72d17eukbtkma"),
    (6830441800946000814, "lqhlrt50jb55s"),
]


@case("param_id/derived_table", "param_id/try_deserialize")
@pytest.mark.parametrize(("value", "text"), BURN_TEXTS)
def test_text_is_burns_and_reads_back(value: int, text: str) -> None:
    assert str(ParamId(value)) == text
    assert ParamId.parse(text) == ParamId(value)
    assert ParamId.parse(text.upper()) == ParamId(value)


def test_short_ids_of_old_versions_are_extended_with_zeros() -> None:
    assert ParamId.parse("5kmiqb9d5k") == ParamId(int.from_bytes(bytes([45] * 6), "little"))


@case("param_id/legacy_uuid")
def test_a_uuid_of_old_versions_is_the_same_id_each_time() -> None:
    text = "30b82c23-788d-4d63-a743-ada258d5f13c"
    assert ParamId.parse(text) == ParamId.parse(text) == ParamId.parse(text.upper())
    assert ParamId.parse(text) != ParamId.parse("30b82c23-788d-4d63-a743-ada258d5f13d")


@case("param_id/invalid", "param_id/try_deserialize")
@pytest.mark.parametrize(
    "text",
    [
        "30b82c23-788d-4d63-ada258d5f13c",
        "{30b82c23-788d-4d63-a743-ada258d5f13c}",
        "invalid_id",
        "",
        "zzzzzzzzzzzzz",
        "83h02000000000000",
        "83h 200000000",
        "83h0200000ß00",
    ],
)
def test_what_is_no_id_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"Invalid id\. .*expected a ParamId of 13 characters"):
        ParamId.parse(text)


@pytest.mark.parametrize("value", [-1, 2**64])
def test_only_64_bits_fit(value: int) -> None:
    with pytest.raises(ValueError, match="unsigned 64-bit"):
        ParamId(value)


def test_new_ids_differ() -> None:
    assert len({ParamId.new() for _ in range(1000)}) == 1000


def test_a_seed_repeats_the_ids() -> None:
    seed_param_ids(7)
    first = [ParamId.new() for _ in range(3)]
    seed_param_ids(7)
    assert [ParamId.new() for _ in range(3)] == first
    seed_param_ids(8)
    assert ParamId.new() not in first


def test_what_ids_are_drawn_for_is_short_however_large_the_model() -> None:
    small, large = (nn.Sequential(*(nn.Linear(1, 1) for _ in range(count))) for count in (1, 1000))
    assert len(fingerprint_of_tree(large)) == len(fingerprint_of_tree(small)) < 100
    assert fingerprint_of_tree(large) != fingerprint_of_tree(small)

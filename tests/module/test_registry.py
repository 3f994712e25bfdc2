"""Identity of parameters through everything that replaces tensors."""

import copy
import io
import pickle

import pytest
import torch
from torch import nn

from burnlike.errors import DuplicateParamIdError
from burnlike.module import Module, fresh_ids, params
from burnlike.module import visit as visit_params


class Scale(Module):
    def __init__(self) -> None:
        super().__init__()
        self.gamma = nn.Parameter(torch.ones(3))
        self.register_buffer("mean", torch.zeros(3))
        self.register_buffer("table", torch.zeros(3), persistent=False)
        self.settings = {"anything": object()}


def ids(module: nn.Module) -> dict[str, int]:
    return {param.path: int(param.id) for param in params(module)}


def plain() -> nn.Module:
    return nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.Sequential(nn.Linear(3, 2)))


@pytest.fixture(params=[plain, lambda: nn.Sequential(Scale(), nn.Linear(3, 2))], ids=["plain", "burnlike"])
def model(request: pytest.FixtureRequest) -> nn.Module:
    return request.param()


def test_order_kinds_and_paths() -> None:
    found = params(nn.Sequential(Scale(), nn.BatchNorm1d(3)))
    assert [(param.path, param.kind) for param in found] == [
        ("0.gamma", "weight"),
        ("0.mean", "state"),
        ("1.weight", "weight"),
        ("1.bias", "weight"),
        ("1.running_mean", "state"),
        ("1.running_var", "state"),
        ("1.num_batches_tracked", "state"),
    ]
    assert [param.path for param in params(Scale(), "state")] == ["mean"]


def test_ids_differ_and_stay_over_traversals(model: nn.Module) -> None:
    first = ids(model)
    assert len(set(first.values())) == len(first)
    assert ids(model) == first


def test_a_burnlike_module_has_its_ids_before_any_traversal() -> None:
    scale = Scale()
    assert ids(copy.deepcopy(scale)) == ids(scale)


@pytest.mark.parametrize(
    "change",
    [
        copy.deepcopy,
        lambda m: pickle.loads(pickle.dumps(m)),
        lambda m: m.half(),
        lambda m: m.to("meta"),
        lambda m: m.to("meta").to_empty(device="cpu"),
        lambda m: (m.load_state_dict({k: v.clone() for k, v in m.state_dict().items()}, assign=True), m)[1],
        lambda m: torch.compile(m, backend="eager"),
        lambda m: nn.DataParallel(m),
    ],
    ids=["deepcopy", "pickle", "half", "meta", "to_empty", "assign", "compile", "data_parallel"],
)
def test_ids_and_paths_survive(model: nn.Module, change) -> None:
    before = ids(model)
    assert ids(change(model)) == before


def test_ids_survive_torch_save(model: nn.Module) -> None:
    before = ids(model)
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    assert ids(torch.load(file, weights_only=False)) == before


def test_a_field_named_module_keeps_its_place_in_the_path() -> None:
    class Holder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.module = nn.Linear(1, 1, bias=False)

    assert [param.path for param in params(Holder())] == ["module.weight"]


def test_replacing_a_tensor_keeps_the_id_also_by_way_of_removing_the_name() -> None:
    scale = Scale()
    before = ids(scale)
    scale.gamma = nn.Parameter(torch.zeros(5))
    assert ids(scale) == before
    del scale.gamma
    scale.gamma = nn.Parameter(torch.zeros(5))
    assert ids(scale) == before  # torch's own tools (pruning, parametrizations) replace a tensor so


def test_every_change_of_the_tree_is_seen(model: nn.Module) -> None:
    model.add_module("first", nn.Linear(1, 1))
    assert "first.bias" in ids(model)
    model.first.bias = None
    assert "first.bias" not in ids(model)
    model.first.register_buffer("extra", torch.zeros(1))
    assert "first.extra" in ids(model)
    model.first = nn.Identity()
    assert not any(path.startswith("first") for path in ids(model))
    inner = model[0]
    inner._non_persistent_buffers_set.update(inner._buffers)
    assert not any(param.path.startswith("0.") for param in params(model, "state"))


def test_tied_tensors_are_one_param_with_aliases() -> None:
    model = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False))
    separate = ids(model)
    model[1].weight = model[0].weight
    (param,) = params(model)
    assert (param.path, param.aliases) == ("0.weight", ("1.weight",))
    assert int(param.id) == separate["0.weight"]
    param.assign(torch.zeros(2, 2))
    assert model[0].weight is model[1].weight
    model[1].weight = nn.Parameter(torch.ones(2, 2))
    assert ids(model)["0.weight"] == separate["0.weight"]
    assert len(set(ids(model).values())) == 2


def test_a_shared_module_is_visited_once() -> None:
    layer = nn.Linear(1, 1, bias=False)
    (param,) = params(nn.Sequential(layer, nn.ReLU(), layer))
    assert (param.path, param.aliases) == ("0.weight", ("2.weight",))


def test_two_tensors_with_one_id_are_an_error_that_fresh_ids_mends() -> None:
    scale = Scale()
    model = nn.Sequential(scale, copy.deepcopy(scale))
    with pytest.raises(
        DuplicateParamIdError, match=r"'0\.gamma' and '1\.gamma' are different tensors with one ParamId"
    ):
        params(model)
    fresh_ids(model[1])
    assert len(set(ids(model).values())) == 4


def test_assign_keeps_trainability_and_adopt_changes_the_id() -> None:
    model = nn.Linear(2, 2)
    model.weight.requires_grad_(False)
    weight, bias = params(model)
    weight.assign(torch.full((2, 2), 3.0))
    bias.assign(torch.ones(2))
    assert isinstance(model.weight, nn.Parameter)
    assert (model.weight.requires_grad, model.bias.requires_grad) == (False, True)
    assert (weight.trainable, bias.trainable) == (False, True)
    weight.adopt(bias.id)
    with pytest.raises(DuplicateParamIdError):
        params(model)


def test_visit_passes_each_param() -> None:
    seen = []
    visit_params(nn.Linear(2, 2), lambda param: seen.append(param.path))
    assert seen == ["weight", "bias"]


def test_module_counts_float_values_once() -> None:
    scale = Scale()
    scale.tied = scale.gamma
    scale.register_buffer("count", torch.zeros(7, dtype=torch.int64))
    assert scale.num_params() == 6


def test_no_grad_freezes_and_returns_the_module() -> None:
    scale = Scale()
    assert scale.no_grad() is scale
    assert not any(param.trainable for param in scale.params())

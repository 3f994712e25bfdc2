"""Identity of parameters through everything that replaces tensors."""

import copy
import gc
import weakref
from typing import Any

import pytest
import torch
from torch import nn

from burnlike.errors import DuplicateParamIdError, ModuleTreeError
from burnlike.module import (
    Module,
    Param,
    ParamId,
    clone,
    devices,
    display,
    fresh_ids,
    no_grad,
    num_params,
    params,
    seed_param_ids,
    valid,
    visit as visit_params,
)
from burnlike.module.tree.walk import weights, weights_and_tensors

from ..fields import ids


class Scale(Module):
    def __init__(self) -> None:
        super().__init__()
        self.gamma = nn.Parameter(torch.ones(3))
        self.register_buffer("mean", torch.zeros(3))
        self.register_buffer("table", torch.zeros(3), persistent=False)
        self.settings = {"anything": object()}


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
    norm = model.first = nn.BatchNorm1d(1)
    assert "first.running_mean" in ids(model)
    norm._non_persistent_buffers_set.add("running_mean")
    assert "first.running_mean" not in ids(model)
    norm._non_persistent_buffers_set.clear()
    norm._non_persistent_buffers_set.add("running_var")
    assert "first.running_mean" in ids(model)
    assert "first.running_var" not in ids(model)
    norm.register_buffer("weight", norm._parameters.pop("weight"))
    assert [param.kind for param in params(model) if param.path == "first.weight"] == ["state"]
    norm._parameters = {"renamed": norm._parameters["bias"]}
    assert "first.renamed" in ids(model)
    assert "first.bias" not in ids(model)


def test_a_change_in_a_users_container_is_seen() -> None:
    class Pair:
        def __init__(self, **held: nn.Module) -> None:
            self.held = held

        def module_children(self) -> dict[str, nn.Module]:
            return self.held

        def with_module_children(self, children: dict[str, nn.Module]) -> "Pair":
            return Pair(**children)

    model = Module()
    model.pair = Pair(a=nn.Linear(1, 1))
    assert list(ids(model)) == ["pair.a.weight", "pair.a.bias"]
    model.pair.held["b"] = nn.Linear(1, 1, bias=False)
    assert list(ids(model)) == ["pair.a.weight", "pair.a.bias", "pair.b.weight"]


def test_the_traversal_of_an_unchanged_tree_is_the_same_object(model: nn.Module) -> None:
    first = weights(model)
    assert weights(model) is first
    first[0].with_name("a label")
    assert weights(model) is first, "what else is known about a parameter is no part of the tree"
    first[0].adopt(ParamId(7))
    assert weights(model) is not first
    assert int(weights(model)[0].id) == 7


def test_the_tensors_of_weights_are_those_that_the_handles_read(model: nn.Module) -> None:
    layer = next(it for it in model.modules() if isinstance(it, nn.Linear))

    def agree() -> bool:
        found, tensors = weights_and_tensors(model)
        assert found is weights(model)
        assert len(tensors) == len(found)
        return all(it.tensor is tensor for it, tensor in zip(found, tensors, strict=True))

    assert agree()
    assert agree()
    layer.weight = nn.Parameter(layer.weight.detach() + 1)
    assert agree()
    model.add_module("tied", nn.Linear(2, 3, bias=False))
    model.tied.weight = layer.weight
    assert agree()
    single = nn.Linear(2, 3, bias=False)
    assert weights_and_tensors(single)[1] == [single.weight]
    assert weights_and_tensors(nn.Identity())[1] == []


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


def test_a_tied_tensor_has_one_id_from_wherever_it_is_reached() -> None:
    model = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False))
    model[1].weight = model[0].weight
    known = ids(model[1])["weight"]
    assert ids(model) == {"0.weight": known}, "an id that was there goes over a new one"
    assert ids(model[0]) == ids(model[1]) == {"weight": known}
    assert ids(nn.Sequential(model[1], model[0])) == {"0.weight": known}


@pytest.mark.parametrize("later", [0, 1])
def test_a_tensor_that_is_no_longer_tied_gets_an_id_of_its_own(later: int) -> None:
    model = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False))
    model[1].weight = model[0].weight
    ((_, known),) = ids(model).items()
    model[1].weight = nn.Parameter(torch.zeros(2, 2))
    turned = nn.Sequential(model[later], model[1 - later])
    found = list(ids(turned).values())
    assert found[later] == known, "the first place keeps the id"
    assert found[1 - later] != known
    assert list(ids(turned).values()) == found


def test_two_tensors_with_one_id_are_an_error_that_fresh_ids_mends() -> None:
    scale = Scale()
    model = nn.Sequential(nn.Linear(1, 1), scale, copy.deepcopy(scale))
    with pytest.raises(
        DuplicateParamIdError, match=r"'1\.gamma' and '2\.gamma' are different tensors with one ParamId"
    ):
        params(model)
    assert "_burnlike" not in model[0].__dict__, "the module is as it was"
    before = ids(scale)
    assert fresh_ids(model[2]) is model[2]
    assert len(set(ids(model).values())) == 6
    assert ids(scale) == before


def test_a_view_for_validation_beside_its_model_is_an_error() -> None:
    scale = Scale()
    with pytest.raises(DuplicateParamIdError, match=r"'0\.gamma' and '1\.gamma'"):
        params(nn.Sequential(scale, scale.valid()))


class Declared(Module):
    def __init__(self, tensor: torch.Tensor, number: int) -> None:
        super().__init__()
        self.weight = Param.from_tensor(tensor, id=ParamId(number))


def test_one_tensor_with_two_ids_of_the_program_is_an_error() -> None:
    shared = nn.Parameter(torch.zeros(2))
    first, second = Declared(shared, 1), Declared(shared, 2)
    model = nn.ModuleDict({"a": first, "b": nn.Sequential(first, second)})
    message = rf"'a\.weight' and 'b\.1\.weight' are one tensor that was given two ids, {ParamId(1)} and {ParamId(2)}"
    with pytest.raises(DuplicateParamIdError, match=message):
        params(model)
    assert ids(first) == {"weight": 1}
    assert ids(second) == {"weight": 2}
    fresh_ids(second)
    (param,) = params(model)
    assert (int(param.id), param.aliases) == (1, ("b.0.weight", "b.1.weight"))


def test_an_id_of_the_program_goes_over_another() -> None:
    shared = nn.Parameter(torch.zeros(2))
    plain = nn.Module()
    plain.weight = shared
    params(plain)
    assert ids(nn.Sequential(plain, Declared(shared, 3))) == {"0.weight": 3}
    assert ids(plain) == {"weight": 3}


def test_a_tied_tensor_that_the_program_gave_an_id_takes_over_that_of_a_record() -> None:
    shared = nn.Parameter(torch.zeros(2))
    model = nn.Sequential(Declared(shared, 3), Declared(shared, 3))
    (param,) = params(model)
    param.adopt(ParamId(4))
    assert ids(model) == {"0.weight": 4}
    assert ids(model[1]) == {"weight": 4}


def test_a_cycle_is_an_error_that_tells_both_paths() -> None:
    model = nn.Sequential(nn.Linear(1, 1), nn.Sequential(nn.Linear(1, 1)))
    model[1].add_module("up", model[1])
    with pytest.raises(ModuleTreeError, match=r"'1\.up' is the Sequential at '1', which holds it"):
        params(model)
    del model[1].up
    model[1][0].parent = model
    with pytest.raises(ModuleTreeError, match=r"'1\.0\.parent' is the Sequential at the root.*burnlike\.constant"):
        params(model)
    assert "_burnlike" not in model[0].__dict__, "the module is as it was"


@pytest.mark.parametrize(
    "method",
    [
        lambda m: m.train(),
        lambda m: m.eval(),
        lambda m: m.to(torch.float64),
        lambda m: m.to_device("cpu"),
        lambda m: m.requires_grad_(False),
        lambda m: m.clone(),
    ],
)
def test_methods_that_torch_runs_tell_a_cycle_too(method: Any) -> None:
    model = Scale()
    model.inner = Scale()
    model.inner.up = model
    with pytest.raises(ModuleTreeError, match=r"'inner\.up' is the Scale at the root, which holds it"):
        method(model)
    assert model.training
    assert model.inner.training
    assert (model.gamma.dtype, model.gamma.requires_grad) == (torch.float32, True)


def test_ids_do_not_depend_on_how_often_other_models_are_met() -> None:
    def found(others: int) -> dict[str, int]:
        seed_param_ids(5)
        for width in range(2, 2 + others):
            params(nn.Sequential(nn.Linear(width, width)))
            Scale()
        return ids(plain())

    assert found(0) == found(3)


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


@pytest.mark.parametrize(
    "use", [params, weights, lambda m: visit_params(m, lambda param: None)], ids=["all", "weights", "visit"]
)
def test_a_kept_traversal_does_not_keep_its_module_alive(model: nn.Module, use) -> None:
    for make in (lambda: copy.deepcopy(model), lambda: nn.Linear(2, 2), Scale):
        module = make()
        gone = weakref.ref(module)
        use(module)
        gc.disable()  # memory must be free at once, not after a collection
        try:
            del module
            assert gone() is None
        finally:
            gc.enable()


def test_a_param_keeps_its_module() -> None:
    (gamma, _) = params(Scale())
    assert torch.equal(gamma.tensor, torch.ones(3))


@pytest.mark.parametrize("function", [params, num_params, devices, display, clone, valid, no_grad, fresh_ids])
def test_what_is_no_module_is_refused(function: Any) -> None:
    for given, got in [([Scale()], "a list"), (Scale, "the class Scale: give an object of it"), (None, "a NoneType")]:
        with pytest.raises(TypeError, match=rf"^expected a torch\.nn\.Module, got {got}$"):
            function(given)


def test_a_module_that_was_never_initialized_is_an_error_that_tells_where_it_is() -> None:
    class Forgetful(Module):
        def __init__(self) -> None:
            self.width = 3

    with pytest.raises(ModuleTreeError, match=r"^'1' is a Forgetful whose __init__ has not called super"):
        params(nn.Sequential(nn.Linear(2, 2), Forgetful()))
    with pytest.raises(ModuleTreeError, match=r"^the root is a Forgetful"):
        num_params(Forgetful())


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
@pytest.mark.parametrize("compiled", [torch.jit.script, lambda module: torch.jit.trace(module, torch.ones(1, 2))])
def test_a_module_of_torch_jit_is_an_error_that_tells_where_it_is(compiled: Any) -> None:
    module = nn.Sequential(nn.Linear(2, 2), compiled(nn.Linear(2, 2)))
    for use in (params, num_params, valid, clone):
        with pytest.raises(ModuleTreeError, match=r"^'1' is a module of torch\.jit, .* burnlike\.constant\(module\)"):
            use(module)
    with pytest.raises(ModuleTreeError, match=r"^the root is a module of torch\.jit"):
        params(module[1])
    module[1].weight.detach().zero_()
    assert not module[1](torch.ones(1, 2)).sub(module[1].bias).any()

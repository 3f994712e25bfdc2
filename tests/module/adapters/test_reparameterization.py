"""Reparameterizations: parameters that are computed by a named object, in any module, until they are folded."""

import copy
import io
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrizations, parametrize

from burnlike.errors import ArgumentError, ModuleTreeError
from burnlike.module import (
    Module,
    ModuleArray,
    ModuleDict,
    ModuleTuple,
    ModuleVec,
    ModuleVisitor,
    Param,
    Reparameterization,
    WeightNorm,
    apply_reparameterization,
    clone,
    map,
    materialize,
    num_params,
    param_at,
    params,
    train,
    valid,
    visit,
)
from burnlike.record import Record

from ..burn_layers import SimpleLinear
from ..cases import case
from ..fields import paths


class Scaled(Reparameterization):
    reparameterization_name = "custom_scale"

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(1))

    def forward(self, base: Tensor) -> Tensor:
        return base * self.scale


def scaled(param: Param) -> Scaled | None:
    return Scaled() if param.tensor.dim() == 2 else None


def state(module: nn.Module) -> list[tuple[str, Any, bool, int]]:
    """All that a failed change must leave alone."""
    return [(param.path, param.id, param.requires_grad, id(param.tensor)) for param in params(module)]


@pytest.fixture(params=[lambda: nn.Linear(4, 6), SimpleLinear], ids=["plain", "burnlike"])
def layer(request: pytest.FixtureRequest) -> nn.Module:
    return request.param()


@case("reparam/lifecycle")
def test_a_users_reparameterization_lives_through_everything_a_parameter_does(layer: nn.Module) -> None:
    cls, base, base_id = type(layer), layer.weight, param_at(layer, "weight").id
    assert apply_reparameterization(layer, scaled) is layer
    weight = param_at(layer, "weight")
    assert weight.base() is base
    assert weight.id == base_id
    assert torch.equal(weight.val(), base)
    assert isinstance(weight.reparameterization(), Scaled)
    assert num_params(layer) == 31

    layer.weight.sum().backward()
    scale = param_at(layer, "weight.custom_scale.scale").tensor
    assert base.grad is not None
    assert scale.grad is not None

    with torch.no_grad():
        scale.fill_(3.0)
    other = apply_reparameterization(cls(4, 6), scaled)
    Record.from_module(layer).load_into(other)
    assert torch.equal(other.weight, base * 3)

    view = valid(layer)
    assert isinstance(param_at(view, "weight").reparameterization(), Scaled)
    assert torch.equal(view.weight, base * 3)
    assert not any(param.requires_grad for param in params(view))


def test_the_parameter_keeps_its_place_and_what_it_is_computed_by_follows_it(layer: nn.Module) -> None:
    apply_reparameterization(layer, scaled)
    assert paths(layer) == ["weight", "weight.custom_scale.scale", "bias"]
    seen: list[str] = []

    class Log(ModuleVisitor):
        def visit_float(self, param: Param) -> None:
            seen.append(param.path)

        def enter_module(self, name: str, container: str) -> None:
            seen.append(f"> {name} of {container}")

        def exit_module(self, name: str, container: str) -> None:
            seen.append(f"< {name} of {container}")

    visit(layer, Log())
    struct = f"Struct:{type(layer).__name__}"
    assert struct in ("Struct:Linear", "Struct:SimpleLinear")
    assert seen == [
        f"> weight of {struct}",
        "weight",
        "> custom_scale of Reparameterization",
        "> scale of Struct:Scaled",
        "weight.custom_scale.scale",
        "< scale of Struct:Scaled",
        "< custom_scale of Reparameterization",
        f"< weight of {struct}",
        f"> bias of {struct}",
        "bias",
        f"< bias of {struct}",
    ]


def test_folding_leaves_the_module_as_if_there_never_had_been_one(layer: nn.Module) -> None:
    cls, keys, before = type(layer), list(layer.state_dict()), state(layer)
    attributes = set(layer.__dict__)
    param_at(layer, "weight").with_name("first").save_mapper(torch.neg).load_mapper(torch.neg)
    apply_reparameterization(layer, scaled)
    with torch.no_grad():
        param_at(layer, "weight.custom_scale.scale").tensor.fill_(2.0)
    effective = layer.weight.detach().clone()
    assert materialize(layer) is layer
    assert state(layer) == before
    assert type(layer) is cls
    assert list(layer.state_dict()) == keys
    assert set(layer.__dict__) - {"_burnlike"} <= attributes
    assert torch.equal(layer.weight, effective)
    assert layer.weight.is_leaf
    assert param_at(layer, "weight").name == "first"


def test_a_view_is_folded_and_the_model_trains_on(layer: nn.Module) -> None:
    apply_reparameterization(layer, scaled)
    view = materialize(valid(layer))
    assert paths(view) == ["weight", "bias"]
    before = layer.weight.detach().clone()
    with torch.no_grad():
        view.weight.zero_()
    assert torch.equal(layer.weight, before)
    layer.weight.sum().backward()
    assert param_at(layer, "weight.custom_scale.scale").tensor.grad is not None


def test_valid_and_train_remember_the_base_also_in_plain_modules() -> None:
    class Model(Module):
        def __init__(self) -> None:
            super().__init__()
            self.plain = nn.Linear(2, 2)
            self.own = SimpleLinear(2, 2)

    for model in (Model(), nn.Sequential(nn.Linear(2, 2), SimpleLinear(2, 2))):
        apply_reparameterization(model, scaled)
        next(iter(params(model))).set_require_grad(False)
        trainable = [param.trainable for param in params(model)]
        view = valid(model)
        assert [param.trainable for param in params(view)] == trainable
        restored = view.train() if isinstance(view, Module) else train(view)
        assert [param.requires_grad for param in params(restored)] == trainable


@pytest.mark.parametrize(
    "change",
    [
        copy.deepcopy,
        clone,
        copy.copy,
        lambda m: pickle.loads(pickle.dumps(m)),
        lambda m: map(m, lambda param: param),
        lambda m: m.to(torch.float64).to(torch.float32),
        lambda m: (m.load_state_dict({k: v.clone() for k, v in m.state_dict().items()}, assign=True), m)[1],
    ],
    ids=["deepcopy", "clone", "copy", "pickle", "map", "to", "assign"],
)
def test_copies_and_conversions_keep_it_attached(layer: nn.Module, change: Callable[[nn.Module], nn.Module]) -> None:
    layer.other = nn.Parameter(torch.randn(2))
    apply_reparameterization(layer, scaled)
    with torch.no_grad():
        param_at(layer, "weight.custom_scale.scale").tensor.fill_(2.0)
    before, effective = [(param.path, param.id) for param in params(layer)], layer.weight.detach().clone()
    changed = change(layer)
    assert [(param.path, param.id) for param in params(changed)] == before
    assert torch.equal(changed.weight, effective)
    assert type(changed).__name__ == type(layer).__name__


def test_torch_save_writes_the_module_and_reads_it_back(layer: nn.Module) -> None:
    apply_reparameterization(layer, scaled)
    file = io.BytesIO()
    torch.save(layer, file)
    file.seek(0)
    loaded = torch.load(file, weights_only=False)
    assert torch.equal(loaded.weight, layer.weight)
    materialize(loaded)
    assert type(loaded) is type(materialize(layer))


def test_copies_are_changed_apart_from_each_other(layer: nn.Module) -> None:
    apply_reparameterization(layer, scaled)
    folded, more, last = copy.deepcopy(layer), copy.deepcopy(layer), copy.deepcopy(layer)
    materialize(folded)
    apply_reparameterization(more, lambda param: Scaled() if param.path == "bias" else None)
    assert paths(more) == ["weight", "weight.custom_scale.scale", "bias", "bias.custom_scale.scale"]
    for untouched in (layer, last):
        assert isinstance(untouched.bias, nn.Parameter)
        assert paths(untouched) == ["weight", "weight.custom_scale.scale", "bias"]
        assert torch.equal(untouched.weight, folded.weight)
    assert paths(materialize(more)) == ["weight", "bias"]


@pytest.mark.parametrize("swap", [False, True])
def test_the_parameter_is_neither_written_to_nor_replaced(layer: nn.Module, swap: bool) -> None:
    weight, version = layer.weight, layer.weight._version
    torch.__future__.set_swap_module_params_on_conversion(swap)
    try:
        apply_reparameterization(layer, scaled)
        assert weight._version == version
        materialize(layer)
    finally:
        torch.__future__.set_swap_module_params_on_conversion(False)
    assert layer.weight is weight


def test_folding_what_shares_memory_with_the_base_makes_memory_of_its_own() -> None:
    class Same(Reparameterization):
        reparameterization_name = "same"

        def forward(self, base: Tensor) -> Tensor:
            return base.view_as(base)

    layer = apply_reparameterization(nn.Linear(2, 2), lambda param: Same() if param.path == "weight" else None)
    view = materialize(valid(layer))
    with torch.no_grad():
        view.weight.zero_()
    assert layer.weight.count_nonzero() == 4


def test_a_tied_parameter_is_computed_alike_at_all_its_places() -> None:
    model = nn.Module()
    model.embedding, model.head = nn.Embedding(5, 3), nn.Linear(3, 5, bias=False)
    model.head.weight = model.embedding.weight
    apply_reparameterization(model, scaled)
    (weight, scale) = params(model)
    assert (weight.path, weight.aliases) == ("embedding.weight", ("head.weight",))
    assert (scale.path, scale.aliases) == (
        "embedding.weight.custom_scale.scale",
        ("head.weight.custom_scale.scale",),
    )
    with torch.no_grad():
        scale.tensor.fill_(2.0)
    assert torch.equal(model.head.weight, model.embedding.weight)
    expected = weight.val().detach().clone()
    for copied in (clone(model), valid(model), pickle.loads(pickle.dumps(model))):
        assert len(params(copied)) == 2
        assert torch.equal(materialize(copied).head.weight, expected)
        assert copied.head.weight is copied.embedding.weight
    assert params(model)[0].base().equal(expected / 2)


@pytest.mark.parametrize("kind", [nn.ParameterList, nn.ParameterDict, ModuleVec, ModuleTuple, ModuleDict])
def test_parameters_in_containers(kind: Callable[..., Any]) -> None:
    tensors = [nn.Parameter(torch.ones(2, 2)), nn.Parameter(torch.ones(2, 2))]
    names = kind in (nn.ParameterDict, ModuleDict)
    holder = kind(dict(zip("xy", tensors, strict=True)) if names else tensors)
    before = paths(holder)
    apply_reparameterization(holder, scaled)
    assert len(paths(holder)) == 4
    with torch.no_grad():
        params(holder)[1].tensor.fill_(2.0)
    first, second = holder.values() if names else holder
    assert (first.sum().item(), second.sum().item()) == (8, 4)
    assert paths(clone(holder)) == paths(holder)
    assert paths(materialize(holder)) == before
    assert type(holder) is kind


def test_layers_with_and_without_one_are_of_one_class() -> None:
    layers = ModuleArray([SimpleLinear(2, 2), SimpleLinear(2, 2)])
    apply_reparameterization(layers, lambda param: Scaled() if param.path == "0.weight" else None)
    assert len(layers[0:2]) == 2


def test_a_parametrization_of_torch_for_another_tensor_of_the_module_stays() -> None:
    layer = parametrize.register_parametrization(nn.Linear(3, 3), "bias", nn.Softplus())
    apply_reparameterization(layer, scaled)
    assert "weight.custom_scale.scale" in paths(layer)
    bias = layer.bias.detach().clone()
    assert torch.equal(copy.deepcopy(layer).bias, bias)
    materialize(layer)
    assert "weight" in paths(layer)
    assert torch.equal(layer.bias, bias)
    parametrize.remove_parametrizations(layer, "bias")
    assert paths(layer) == ["weight", "bias"]


def test_a_parametrization_of_torch_may_come_on_top() -> None:
    layer = apply_reparameterization(nn.Linear(3, 3), scaled)
    parametrize.register_parametrization(layer, "weight", nn.Linear(3, 3, bias=False))
    assert paths(layer) == ["weight", "weight.custom_scale.scale", "parametrizations.weight.1.weight", "bias"]
    before = state(layer)
    with pytest.raises(ModuleTreeError, match=r"'weight' has parametrizations of torch\.nn\.utils\.parametrize on top"):
        materialize(layer)
    assert state(layer) == before


class Wrong(Reparameterization):
    reparameterization_name = "wrong"

    def forward(self, base: Tensor) -> Any:
        return base[:1]


class Failing(Wrong):
    def forward(self, base: Tensor) -> Any:
        raise ZeroDivisionError("no such thing")


class NotOne(Wrong):
    def forward(self, base: Tensor) -> Any:
        return None


class Nameless(Wrong):
    reparameterization_name = ""


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (Wrong, r"'weight'.*expected Wrong\(base\) to be a tensor of base's shape \[6, 4\], got \[1, 4\]"),
        (NotOne, r"'weight'.*got NoneType"),
        (Failing, r"'weight': Failing failed on \[6, 4\] of torch.float32: no such thing"),
        (Nameless, r"expected Nameless\.reparameterization_name to be a name.*got ''"),
        (nn.Identity, r"'weight': expected a Reparameterization or None, got Identity"),
    ],
)
def test_one_that_does_not_fit_is_refused(layer: nn.Module, make: Callable[[], Any], message: str) -> None:
    before = state(layer)
    with pytest.raises(ModuleTreeError, match=message):
        apply_reparameterization(layer, lambda param: make())
    assert state(layer) == before


def test_what_make_raises_is_passed_on(layer: nn.Module) -> None:
    before = state(layer)

    def make(param: Param) -> Scaled:
        if param.path == "bias":
            raise KeyError("bias")
        return Scaled()

    with pytest.raises(KeyError):
        apply_reparameterization(layer, make)
    assert state(layer) == before


def test_a_module_that_torch_fails_on_half_way_is_put_back(layer: nn.Module) -> None:
    class Final(nn.Linear):
        def __init_subclass__(cls) -> None:
            raise TypeError("no class is derived from it")

    model = nn.Sequential(layer, parametrize.register_parametrization(nn.Linear(2, 2), "bias", nn.Softplus()))
    model.append(Final(2, 2))
    before, kinds = state(model), [type(part) for part in model]
    with pytest.raises(TypeError, match="no class is derived"):
        apply_reparameterization(model, scaled)
    assert state(model) == before
    assert [type(part) for part in model] == kinds
    assert isinstance(layer.weight, nn.Parameter)
    assert "weight" in model[1]._parameters


def test_none_on_top_of_another(layer: nn.Module) -> None:
    apply_reparameterization(layer, scaled)
    before = state(layer)
    with pytest.raises(ModuleTreeError, match=r"'weight' is reparameterized already, by Scaled.*materialize"):
        apply_reparameterization(layer, scaled)
    assert state(layer) == before


def test_none_on_top_of_torchs() -> None:
    layer = parametrizations.weight_norm(nn.Linear(3, 3))
    before = state(layer)
    with pytest.raises(ModuleTreeError, match=r"'parametrizations\.weight\.original0' belongs to a parametrization"):
        apply_reparameterization(layer, scaled)
    assert state(layer) == before


def test_none_for_what_a_users_container_holds_itself() -> None:
    class Pair:
        def __init__(self, first: Tensor) -> None:
            self.first = first

        def module_children(self) -> dict[str, Any]:
            return {"first": self.first}

        def with_module_children(self, children: Any) -> "Pair":
            return Pair(**children)

    class Model(Module):
        def __init__(self) -> None:
            super().__init__()
            self.pair = Pair(nn.Parameter(torch.ones(2, 2)))

    model = Model()
    with pytest.raises(ModuleTreeError, match=r"'pair\.first' is held by a Pair, which would go on to use"):
        apply_reparameterization(model, scaled)
    assert paths(model) == ["pair.first"]


def test_untied_reparameterizations_of_one_tensor_are_not_folded() -> None:
    model = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False))
    apply_reparameterization(model, lambda param: Scaled() if param.path == "0.weight" else None)
    model[1].weight = model[0].parametrizations.weight.original
    with pytest.raises(ModuleTreeError, match=r"'0\.weight' is tied to 1\.weight"):
        materialize(model)
    assert paths(model) == ["0.weight", "0.weight.custom_scale.scale"]


def normed(param: Param) -> WeightNorm | None:
    return WeightNorm(param.base(), dim=1) if param.tensor.dim() > 1 else None


def norm_reference(weight: Tensor, dim: int) -> Tensor:
    """The direction of `weight` with magnitudes 1, as torch computes it, in float64."""
    layer = nn.Module()
    layer.weight = nn.Parameter(weight.double())
    parametrizations.weight_norm(layer, dim=dim)
    layer.parametrizations.weight.original0.data.fill_(1.0)
    return layer.weight.detach()


@case("weight_norm/preserves_effective_weight_when_attached")
def test_weight_norm_starts_as_what_the_weight_is() -> None:
    layer = SimpleLinear()
    expected = layer.weight.detach().clone()
    apply_reparameterization(layer, normed)
    torch.testing.assert_close(layer.weight.detach(), expected)
    g = param_at(layer, "weight.weight_norm.g")
    assert list(g.tensor.shape) == [4]
    assert num_params(layer) == 24 + 6 + 4


@pytest.mark.parametrize(("shape", "dim"), [((4, 6), 0), ((4, 6), 1), ((3, 2, 5), 1), ((3, 2, 2, 2), 0)])
def test_weight_norm_has_the_magnitudes_of_g_and_the_direction_of_the_weight(shape: tuple[int, ...], dim: int) -> None:
    weight = torch.randn(shape)
    norm = WeightNorm(weight, dim)
    norm.g.data.fill_(1.0)
    torch.testing.assert_close(norm(weight).detach(), norm_reference(weight, dim).float())


@case("weight_norm/gradients_flow_to_direction_and_magnitude")
def test_weight_norm_trains_direction_and_magnitude() -> None:
    model = apply_reparameterization(SimpleLinear(), normed)
    for module in (model, valid(model).train()):
        module.weight.sum().backward()
        for path in ("weight", "weight.weight_norm.g"):
            assert param_at(module, path).tensor.grad.count_nonzero() > 0


@case("weight_norm/record_roundtrip_preserves_direction_and_magnitude")
def test_weight_norm_is_saved_as_direction_and_magnitude() -> None:
    source, target = (apply_reparameterization(SimpleLinear(), normed) for _ in range(2))
    with torch.no_grad():
        param_at(source, "weight.weight_norm.g").tensor.mul_(3)
    Record.from_module(source).load_into(target)
    assert torch.equal(param_at(target, "weight").base(), param_at(source, "weight").base())
    torch.testing.assert_close(target.weight, source.weight)


@case("weight_norm/valid_folds_reparameterization")
def test_weight_norm_stays_in_valid_and_is_folded_by_materialize() -> None:
    model = apply_reparameterization(SimpleLinear(), normed)
    with torch.no_grad():
        param_at(model, "weight.weight_norm.g").tensor.mul_(3)
    expected = model.weight.detach().clone()
    view = valid(model)
    assert isinstance(param_at(view, "weight").reparameterization(), WeightNorm)
    assert torch.equal(view.weight, expected)
    folded = materialize(view)
    assert param_at(folded, "weight").reparameterization() is None
    assert torch.equal(folded.weight, expected)


def test_weight_norm_needs_a_dimension_of_the_weight() -> None:
    with pytest.raises(ArgumentError, match="one of the 2 dimensions of the weight, got 2"):
        WeightNorm(torch.ones(2, 2), dim=2)

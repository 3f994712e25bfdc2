"""Mapping: a new tree of what a mapper makes of each tensor, or the same tree in place."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor, init_device_mesh
from torch.nn.utils import parametrizations, parametrize
from torch.utils._pytree import tree_leaves

from burnlike.errors import MapperError, ModuleTreeError
from burnlike.module import LazyParameter, Module, ModuleMapper, Param, constant, map, map_, params, valid
from burnlike.module.transforms.mapping import Memory

from ..cases import case


class Reinitializer(ModuleMapper):
    """Every number becomes `value`, or runs from `low` to `high` in row-major order, as Burn's does."""

    def __init__(self, value: float = 0.0, between: tuple[float, float] | None = None) -> None:
        self.value = value
        self.between = between

    def map_float(self, param: Param) -> Tensor:
        tensor = param.tensor
        if self.between is None:
            return torch.full_like(tensor, self.value)
        low, high = self.between
        count = tensor.numel()
        return (torch.arange(count) * (high - low) / count + low).to(tensor.dtype).reshape(tensor.shape)

    def map_int(self, param: Param) -> Tensor:
        return self.map_float(param)


class Net(Module):
    """A burnlike module with all that a tree can hold."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = Param.from_tensor(torch.tensor([[1.0, 2.0], [3.0, 4.0]]), name="matrix")
        self.frozen = nn.Parameter(torch.ones(2), requires_grad=False)
        self.layers = [nn.Linear(2, 2), nn.BatchNorm1d(2)]
        self.mask = Param.from_tensor(torch.tensor([True, False]))
        self.register_buffer("table", torch.arange(3.0), persistent=False)
        self.plain = torch.ones(2)
        self.cache = [torch.ones(2), {"again": self.plain}]
        self.settings = {"anything": object()}


class Plain(nn.Module):
    """The same, as others write it."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
        self.frozen = nn.Parameter(torch.ones(2), requires_grad=False)
        self.layers = nn.ModuleList([nn.Linear(2, 2), nn.BatchNorm1d(2)])
        self.register_buffer("mask", torch.tensor([True, False]))
        self.register_buffer("table", torch.arange(3.0), persistent=False)
        self.plain = torch.ones(2)
        self.cache = [torch.ones(2), {"again": self.plain}]
        self.settings = {"anything": object()}


@pytest.fixture(params=[Net, Plain])
def net(request: pytest.FixtureRequest) -> Any:
    return request.param()


def doubled(param: Param) -> Tensor:
    return param.tensor * 2 if param.tensor.is_floating_point() else param.tensor


def state(module: nn.Module) -> list[Any]:
    """All that must not change when a mapping fails."""
    return [
        (
            param.path,
            param.id,
            id(param.tensor),
            param.tensor.tolist(),
            param.tensor.dtype,
            param.requires_grad,
            param.trainable,
            param.name,
        )
        for param in params(module)
    ]


def forms(module: nn.Module) -> list[Any]:
    """All that a mapping of values keeps."""
    return [(it.path, it.id, it.kind, it.requires_grad, it.name, it.aliases) for it in params(module)]


def storages(module: nn.Module) -> set[int]:
    tensors = [*module.parameters(), *module.buffers()]
    tensors += [it for part in module.modules() for it in tree_leaves(part.__dict__) if isinstance(it, Tensor)]
    return {tensor.untyped_storage().data_ptr() for tensor in tensors if tensor.numel()}


@case("reinit/constant")
@pytest.mark.parametrize("mapping", [map, map_])
def test_a_mapper_object_sets_numbers_and_leaves_bools(net: Any, mapping: Callable[..., Any]) -> None:
    before = forms(net)
    for mapper, value in ((Reinitializer(), 0.0), (Reinitializer(7), 7.0)):
        new = mapping(net, mapper)
        for param in params(new):
            expected = [True, False] if param.path == "mask" else torch.full(param.tensor.shape, value).tolist()
            assert param.tensor.tolist() == expected
        assert forms(new) == before
        assert new.layers[1].num_batches_tracked.dtype == torch.int64


@case("reinit/range")
def test_a_mapper_object_fills_in_row_major_order(net: Any) -> None:
    new = map(net, Reinitializer(between=(0.0, 1.0)))
    assert new.weight.tolist() == [[0.0, 0.25], [0.5, 0.75]]


def test_map_leaves_the_original_alone_and_keeps_what_is_known(net: Any) -> None:
    before = state(net)
    new = map(net, doubled)
    assert state(net) == before
    assert forms(new) == forms(net)
    assert type(new) is type(net)
    assert isinstance(new.weight, nn.Parameter)
    assert new.weight.tolist() == [[2.0, 4.0], [6.0, 8.0]]
    assert new.weight.is_leaf
    assert new.table.tolist() == net.table.tolist()
    assert new.settings is net.settings
    assert new.cache[1]["again"] is new.plain
    assert new.training == net.training


@pytest.mark.parametrize(
    "mapper",
    [
        lambda p: p,
        lambda p: p.tensor,
        lambda p: p.tensor.data,
        lambda p: p.tensor.T if p.tensor.ndim == 2 else p.tensor[:1] if p.tensor.ndim else p.tensor.view(1),
        lambda p: torch.from_numpy(p.tensor.detach().numpy()[..., 1:]) if p.tensor.ndim else p.tensor,
        lambda p: p.tensor.expand(3, *p.tensor.shape),
        lambda p: Param.from_tensor(p.tensor.detach()),
        doubled,
    ],
    ids=["param", "tensor", "data", "views", "numpy", "expanded", "new_param", "values"],
)
def test_map_shares_no_memory(net: Any, mapper: Callable[[Param], Any]) -> None:
    new = map(net, mapper)
    assert not storages(new) & storages(net)
    assert len(storages(new)) == len(storages(net))
    before = state(net)
    with torch.no_grad():
        for tensor in (*new.parameters(), *new.buffers()):
            tensor.zero_()
    assert state(net) == before
    for tensor in new.parameters():
        assert tensor.untyped_storage().nbytes() == tensor.numel() * tensor.element_size()


@pytest.mark.parametrize("mapping", [map, map_])
def test_parameters_that_get_one_tensor_do_not_share_it(mapping: Callable[..., Any]) -> None:
    given = torch.zeros(3)
    model = mapping(nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2)]), lambda param: given)
    assert len(storages(model)) == 4
    assert all(param.shape == (3,) for param in model.parameters())


@pytest.mark.parametrize("mapping", [map, map_])
def test_parameters_may_take_each_others_values(mapping: Callable[..., Any]) -> None:
    model = nn.Sequential(nn.Linear(1, 1), nn.Linear(1, 1))
    values = [param.item() for param in model.parameters()]
    others = dict(zip(["0.weight", "0.bias", "1.weight", "1.bias"], reversed(list(model.parameters())), strict=True))
    new = mapping(model, lambda param: others[param.path].view(param.tensor.shape))
    assert [param.item() for param in new.parameters()] == values[::-1]
    assert len(storages(new)) == 4


def test_what_a_mapper_does_to_its_param_stays_in_the_new_module(net: Any) -> None:
    before = state(net)

    def change(param: Param) -> Param:
        param.set_require_grad(False).with_name("mine")
        with torch.no_grad():
            param.tensor.zero_()
        return param

    new = map(net, change)
    assert state(net) == before
    assert not any(param.requires_grad or param.tensor.any() for param in params(new))
    assert {param.name for param in params(new)} == {"mine"}


def test_a_returned_param_freezes_and_labels_and_the_id_stays(net: Any) -> None:
    def change(param: Param) -> Param:
        return Param.from_tensor(param.tensor.clone(), trainable=False, name="x") if param.path == "weight" else param

    for new in (map(net, change), map_(net, change)):
        weight = params(new)[0]
        assert (weight.trainable, weight.requires_grad, weight.name) == (False, False, "x")
        assert forms(new)[1:] == forms(net)[1:]
        assert weight.id == params(net)[0].id


def test_a_returned_param_keeps_the_label_and_mappers_it_lacks() -> None:
    net = Net()
    load = lambda tensor: tensor + 1  # noqa: E731
    params(net)[0].load_mapper(load)
    new = map(net, lambda param: Param.from_tensor(param.tensor.clone()).save_mapper(torch.neg))
    param = params(new)[0]
    assert (param.name, param.mappers.load, param.mappers.save) == ("matrix", load, torch.neg)
    assert new.frozen.requires_grad  # `from_tensor` makes trainable parameters, unless it is told otherwise


def test_a_returned_param_of_a_running_statistic_stays_a_buffer(net: Any) -> None:
    new = map(net, lambda param: Param.from_tensor(param.tensor.clone()) if "running" in param.path else param)
    assert [(it.path, it.kind) for it in params(new)] == [(it.path, it.kind) for it in params(net)]
    assert not isinstance(new.layers[1].running_mean, nn.Parameter)


def test_a_validation_view_stays_untracked_and_trains_again(net: Any) -> None:
    frozen = lambda param: Param.from_tensor(param.tensor * 2, trainable=param.path != "weight")  # noqa: E731
    new = map(valid(net), lambda param: frozen(param) if param.kind == "weight" else param)
    assert not any(param.requires_grad for param in params(new))
    assert {param.path for param in params(new, "weight") if not param.trainable} == {"weight"}
    assert not map(valid(net), doubled).weight.requires_grad
    assert params(map(valid(net), doubled))[0].trainable


def test_results_may_have_another_shape_type_and_graph(net: Any) -> None:
    def change(param: Param) -> Tensor:
        if param.path != "weight":
            return param.tensor
        with torch.enable_grad():
            return (param.tensor[:1] * 2).to(torch.bfloat16)

    for new in (map(net, change), map_(net, change)):
        assert new.weight.dtype == torch.bfloat16
        assert new.weight.tolist() == [[2.0, 4.0]]
        assert new.weight.is_leaf
        assert new.weight.requires_grad
        assert isinstance(new.weight, nn.Parameter)


def test_map_in_place_keeps_the_parameters_so_that_optimizers_go_on(net: Any) -> None:
    optimizer = torch.optim.SGD([it for it in net.parameters() if it.requires_grad], lr=1.0)
    before, view = list(net.parameters()), net.weight.detach()
    known = forms(net)
    assert map_(net, doubled) is net
    assert all(now is then for now, then in zip(net.parameters(), before, strict=True))
    assert view.tolist() == [[2.0, 4.0], [6.0, 8.0]]
    assert forms(net) == known
    net.weight.sum().backward()
    optimizer.step()
    assert net.weight.tolist() == [[1.0, 3.0], [5.0, 7.0]]
    map_(net, lambda param: param.tensor.double() if param.tensor.is_floating_point() else param)
    assert all(now is then for now, then in zip(net.parameters(), before, strict=True))
    assert net.weight.dtype == torch.float64
    assert net.weight.grad is None  # of another type: it can't be used any more
    net.weight.sum().backward()
    optimizer.step()
    assert net.weight.tolist() == [[0.0, 2.0], [4.0, 6.0]]


WRONG = {
    "none": (lambda p: None, "returned NoneType for 'layers.0.bias': .*does it lack a `return`"),
    "int": (lambda p: 3, "returned int for 'layers.0.bias'"),
    "str": (lambda p: "x", "returned str for 'layers.0.bias'"),
    "array": (lambda p: np.zeros(2), "returned ndarray for 'layers.0.bias'"),
    "ints": (lambda p: p.tensor.long(), "tensor of torch.int64 for 'layers.0.bias': expected float values"),
    "bools": (lambda p: Param.from_tensor(p.tensor > 0), "tensor of torch.bool for 'layers.0.bias'"),
}


@pytest.mark.parametrize("mapping", [map, map_])
@pytest.mark.parametrize(("wrong", "message"), WRONG.values(), ids=WRONG)
def test_a_wrong_result_leaves_the_module_as_it_was(
    net: Any, mapping: Callable[..., Any], wrong: Callable[[Param], Any], message: str
) -> None:
    before = state(net)
    with pytest.raises(MapperError, match=message) as caught:
        mapping(net, lambda param: wrong(param) if param.path == "layers.0.bias" else doubled(param))
    assert isinstance(caught.value, TypeError)
    assert state(net) == before


@pytest.mark.parametrize("path", ["mask", "layers.1.num_batches_tracked"])
def test_ints_and_bools_keep_their_kind(net: Any, path: str) -> None:
    before = state(net)
    with pytest.raises(MapperError, match=f"tensor of torch.float32 for '{path}': expected (int|bool) values"):
        map_(net, lambda param: param.tensor.float() if param.path == path else param)
    assert state(net) == before
    map_(net, lambda param: param.tensor.to(torch.int32) if param.path == "layers.1.num_batches_tracked" else param)
    assert net.layers[1].num_batches_tracked.dtype == torch.int32


@pytest.mark.parametrize("mapping", [map, map_])
def test_a_mapper_that_raises_leaves_flags_labels_ids_and_tensors(net: Any, mapping: Callable[..., Any]) -> None:
    before = state(net)

    def change(param: Param) -> Any:
        if param.path == "layers.0.bias":
            raise KeyError("gone")
        param.set_require_grad(not param.requires_grad).with_name("changed").adopt(type(param.id)(int(param.id) ^ 1))
        param.assign(param.tensor.clone())
        return param

    with pytest.raises(KeyError, match="gone") as caught:
        mapping(net, change)
    assert caught.value.__notes__ == [f"at the parameter 'layers.0.bias' of {type(net).__name__}"]
    assert state(net) == before


def test_fields_that_began_end_after_an_exception(net: Any) -> None:
    class Failing(ModuleMapper):
        def __init__(self) -> None:
            self.path: list[str] = []

        def map_float(self, param: Param) -> Param:
            if param.path == "layers.1.running_var":
                raise RuntimeError("stop")
            return param

        def enter_module(self, name: str, container: str) -> None:
            self.path.append(name)

        def exit_module(self, name: str, container: str) -> None:
            assert self.path.pop() == name

    mapper = Failing()
    with pytest.raises(RuntimeError, match="stop"):
        map(net, mapper)
    assert mapper.path == []


def test_an_object_with_some_of_the_methods_is_a_mapper(net: Any) -> None:
    class Bools:
        def map_bool(self, param: Param) -> Tensor:
            return ~param.tensor

    new = map(net, Bools())  # pyright: ignore
    assert new.mask.tolist() == [False, True]
    assert new.weight.tolist() == net.weight.tolist()
    assert not storages(new) & storages(net)


def test_what_is_no_mapper_is_refused(net: Any) -> None:
    with pytest.raises(MapperError, match=r"expected a function of a Param.*map_float.*got int"):
        map(net, 3)  # pyright: ignore
    with pytest.raises(MapperError, match=r"got the class Reinitializer; give Reinitializer\(\)"):
        map_(net, Reinitializer)  # pyright: ignore


def test_other_modules_go_along(net: Any) -> None:
    other, third = type(net)(), type(net)()
    map_(other, lambda param: torch.full_like(param.tensor, 3))
    new = map(net, lambda a, b, c: a.tensor + b.tensor * c.tensor if a.path == "weight" else a, other, third)
    assert new.weight.tolist() == [[4.0, 8.0], [12.0, 16.0]]
    taken = map(net, lambda ours, theirs: theirs, other)
    assert taken.weight.tolist() == [[3.0, 3.0], [3.0, 3.0]]
    assert not storages(taken) & (storages(net) | storages(other))
    assert [param.id for param in params(taken)] == [param.id for param in params(net)]


def test_other_modules_go_along_with_a_mapper_object(net: Any) -> None:
    class Average(ModuleMapper):
        def map_float(self, param: Param, *rest: Param) -> Tensor:
            return torch.stack([param.tensor, *(other.tensor for other in rest)]).mean(0)

        def map_int(self, param: Param, *rest: Param) -> Param:
            return param

        def map_bool(self, param: Param, *rest: Param) -> Param:
            return param

    other = map(net, doubled)
    map_(net, Average(), other)
    assert net.weight.tolist() == [[1.5, 3.0], [4.5, 6.0]]


def test_other_modules_must_have_the_same_paths(net: Any) -> None:
    before = state(net)
    with pytest.raises(ModuleTreeError, match=r"'weight' beside '0\.weight'"):
        map_(net, lambda a, b: b, nn.Sequential(nn.Linear(2, 2)))
    bigger = type(net)()
    bigger.extra = nn.Linear(1, 1)
    with pytest.raises(ModuleTreeError, match=r"expected modules with the same parameters"):
        map(net, lambda a, b: b, bigger)
    assert state(net) == before


def test_tied_tensors_and_shared_modules_are_mapped_once_and_stay_so() -> None:
    shared = nn.Linear(2, 2, bias=False)
    model = nn.Sequential(shared, nn.Linear(2, 2, bias=False), shared)
    model[1].weight = shared.weight
    seen: list[str] = []
    expected = (shared.weight * 2).tolist()

    def change(param: Param) -> Tensor:
        seen.append(param.path)
        return param.tensor * 2

    for new in (map(model, change), map_(model, change)):
        assert new[0] is new[2]
        assert new[0].weight is new[1].weight
        assert new[0].weight.tolist() == expected
    assert seen == ["0.weight", "0.weight"]


@pytest.mark.parametrize("mapping", [map, map_])
def test_lazy_parameters_that_are_left_stay_lazy(mapping: Callable[..., Any]) -> None:
    draws: list[int] = []

    def init(device: torch.device) -> Tensor:
        draws.append(1)
        return torch.rand(3, device=device)

    module = Module()
    module.later = Param.uninitialized(init, [3])
    new = mapping(module, lambda param: param)
    assert type(new._parameters["later"]) is LazyParameter
    assert draws == []
    assert torch.equal(new.later + 0, module.later + 0)
    assert len(draws) == 1
    if new is not module:
        assert not storages(new) & storages(module)


@pytest.mark.parametrize("mapping", [map, map_])
def test_a_lazy_parameter_that_gets_values_is_never_initialized(mapping: Callable[..., Any]) -> None:
    def never(device: torch.device) -> Tensor:
        raise AssertionError("the values were given")

    module = Module()
    module.later = Param.uninitialized(never, [3])
    parameter = module._parameters["later"]
    new = mapping(module, lambda param: torch.arange(4.0, dtype=torch.float64))
    assert new.later.tolist() == [0.0, 1.0, 2.0, 3.0]
    assert type(new.later) is nn.Parameter
    assert new.later.requires_grad
    assert (new.later is parameter) == (new is module)
    if new is not module:
        assert type(module._parameters["later"]) is LazyParameter


def test_a_lazy_param_may_be_the_result() -> None:
    lazy = lambda param: Param.uninitialized(lambda device: torch.full((2,), 5.0), [2])  # noqa: E731
    model = nn.Linear(1, 2)
    new = map(model, lambda param: lazy(param) if param.path == "bias" else param)
    assert type(new._parameters["bias"]) is LazyParameter
    assert new(torch.zeros(1)).tolist() == [5.0, 5.0]
    bias = model.bias
    map_(model, lambda param: lazy(param) if param.path == "bias" else param)
    assert model.bias is bias
    assert bias.tolist() == [5.0, 5.0]


def test_torch_s_own_lazy_modules_are_mapped_and_initialize_each_by_itself() -> None:
    model = nn.Sequential(nn.LazyLinear(2))
    new = map(model, lambda param: param)
    assert new(torch.ones(1, 3)).shape == new(torch.ones(1, 3)).shape == (1, 2)
    assert model(torch.ones(1, 4)).shape == model(torch.ones(1, 4)).shape == (1, 2)


@pytest.mark.parametrize(
    "wrapped", [lambda m: torch.compile(m, backend="eager"), nn.DataParallel], ids=["compile", "data_parallel"]
)
def test_of_wrappers_the_inner_module_is_mapped(wrapped: Any) -> None:
    inner = nn.Linear(2, 2)
    outer = wrapped(inner)
    new = map(outer, doubled)
    assert type(new) is nn.Linear
    assert forms(new) == forms(inner)
    assert map_(outer, doubled) is outer
    assert torch.equal(inner.weight, new.weight)


def test_a_module_compiled_in_place_gives_one_that_computes_for_itself() -> None:
    model = nn.Linear(2, 2)
    model.compile(backend="eager")
    new = map(model, lambda param: torch.zeros_like(param.tensor))
    assert new(torch.ones(2)).tolist() == [0.0, 0.0]


def test_parametrized_modules_keep_their_parametrizations() -> None:
    class LowRank(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a = nn.Parameter(torch.ones(2, 1))
            self.b = nn.Parameter(torch.ones(1, 2))

        def forward(self, weight: Tensor) -> Tensor:
            return weight + self.a @ self.b

    linear = nn.Linear(2, 2, bias=False)
    with torch.no_grad():
        linear.weight.zero_()
    parametrize.register_parametrization(linear, "weight", LowRank())
    new: Any = map(linear, doubled)
    assert forms(new) == forms(linear)
    assert linear.weight.tolist() == [[1.0, 1.0], [1.0, 1.0]]
    assert new.weight.tolist() == [[4.0, 4.0], [4.0, 4.0]]
    normed = parametrizations.weight_norm(nn.Linear(2, 2))
    again: Any = map(normed, lambda param: param.tensor * 2 if param.path.endswith("original0") else param)
    assert torch.allclose(again.weight, normed.weight * 2)


def test_hooks_and_bound_methods_belong_to_the_new_module() -> None:
    class Hooked(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(1))
            self.calls = 0
            self.compute = self.scaled
            self.parts = [self.weight, {"method": self.scaled}]
            self.handle = self.register_forward_hook(self.count)

        def count(self, *_: Any) -> None:
            self.calls += 1

        def scaled(self, x: Tensor) -> Tensor:
            return x * self.weight

        def forward(self, x: Tensor) -> Tensor:
            return self.compute(x)

    old = Hooked()
    new = map(old, lambda param: param.tensor * 3)
    assert new(torch.ones(1)).item() == 3.0
    assert (old.calls, new.calls) == (0, 1)
    assert new.parts[0] is new.weight
    assert new.parts[1]["method"].__self__ is new
    new.handle.remove()
    new(torch.ones(1))
    old(torch.ones(1))
    assert (old.calls, new.calls) == (1, 1)


def test_recurrent_layers_compute_with_the_new_weights() -> None:
    layer = nn.LSTM(2, 3)
    new = map(layer, lambda param: torch.zeros_like(param.tensor))
    assert not new(torch.ones(2, 1, 2))[0].any()
    assert layer(torch.ones(2, 1, 2))[0].any()


def test_constants_are_the_same_objects_but_for_parts_of_the_tree() -> None:
    class Child(Module):
        def __init__(self, parent: nn.Module, teacher: nn.Module) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(1))
            self.parent = constant(parent)
            self.teacher = constant(teacher)

    teacher = nn.Linear(1, 1)
    root = Module()
    root.child = Child(root, teacher)
    new = map(root, doubled)
    assert new.child.teacher is teacher
    assert new.child.parent is new
    assert root.child.parent is root
    assert [param.path for param in params(new)] == ["child.weight"]


def test_results_of_inference_mode_can_be_trained() -> None:
    model = nn.Linear(2, 1)
    with torch.inference_mode():
        new = map(model, doubled)
        given = torch.ones(1, 2)
        map_(model, lambda param: given if param.path == "weight" else param)
    map_(model, lambda param: given.expand(3, 2) if param.path == "weight" else param.tensor.expand(3))
    for module in (new, model):
        module(torch.ones(1, 2)).sum().backward()
        assert module.weight.grad is not None


def test_modules_without_values_are_mapped() -> None:
    model = nn.Linear(2, 2, device="meta")
    assert map(model, doubled).weight.is_meta
    map_(model, lambda param: torch.zeros(param.tensor.shape))
    assert model.weight.tolist() == [[0.0, 0.0], [0.0, 0.0]]


class Pair(torch.Tensor):
    """A tensor that two others make up, as those of quantized and sharded models are."""

    high: Tensor
    low: Tensor

    @staticmethod
    def __new__(cls, high: Tensor, low: Tensor) -> "Pair":
        made = torch.Tensor._make_wrapper_subclass(cls, high.shape, dtype=high.dtype, device=high.device)
        made.high, made.low = high, low
        return made

    def __tensor_flatten__(self) -> tuple[list[str], None]:
        return ["high", "low"], None

    @staticmethod
    def __tensor_unflatten__(parts: dict[str, Tensor], *_: Any) -> "Pair":
        return Pair(parts["high"], parts["low"])

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        results = [
            func(*(getattr(arg, part) if isinstance(arg, Pair) else arg for arg in args), **(kwargs or {}))
            for part in ("high", "low")
        ]
        return Pair(*results)


@pytest.mark.parametrize("mapping", [map, map_])
def test_tensors_of_other_classes_are_mapped(mapping: Callable[..., Any]) -> None:
    model = nn.Module()
    model.weight = nn.Parameter(Pair(torch.ones(2), torch.zeros(2)))
    parameter, inner = model.weight, model.weight.high
    same = mapping(model, lambda param: param.tensor.view(2))
    assert isinstance(same.weight, Pair)
    new = mapping(model, lambda param: param.tensor * 2)
    assert (new.weight.high.tolist(), new.weight.low.tolist()) == ([2.0, 2.0], [0.0, 0.0])
    assert isinstance(new.weight, Pair)
    assert isinstance(new.weight, nn.Parameter)
    assert new.weight.requires_grad
    assert (new.weight is parameter) == (new is model)
    if new is not model:
        assert not {it.data_ptr() for it in (same.weight.high, new.weight.high)} & {inner.data_ptr()}
    unpacked = mapping(model, lambda param: torch.ones(2))
    assert type(unpacked.weight) is nn.Parameter


@pytest.fixture
def mesh(tmp_path: Any) -> Any:
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/group", rank=0, world_size=1)
    yield init_device_mesh("cpu", (1,))
    dist.destroy_process_group()


def test_sharded_tensors_keep_their_placement(mesh: Any) -> None:
    model = nn.Linear(2, 2, bias=False)
    values = model.weight.detach().clone()
    model.weight = nn.Parameter(distribute_tensor(values, mesh, [Shard(0)]))
    parameter, local = model.weight, model.weight.to_local()
    map_(model, lambda param: param.tensor * 2)
    assert model.weight is parameter
    assert torch.equal(local, values * 2)
    new = map(model, lambda param: param.tensor * 2)
    assert isinstance(new.weight, DTensor)
    assert torch.equal(new.weight.to_local(), values * 4)
    assert torch.equal(local, values * 2)
    for wrong in (torch.zeros(2, 2), distribute_tensor(torch.zeros(2, 2), mesh, [Replicate()])):
        with pytest.raises(MapperError, match="'weight', which is sharded: expected a DTensor of the placements"):
            map_(model, lambda param: wrong)  # noqa: B023
    assert torch.equal(local, values * 2)


def test_memory_that_touches_several_ranges_joins_them() -> None:
    array = np.arange(10.0)

    def part(begin: int, end: int) -> Tensor:
        return torch.from_numpy(array[begin:end])  # each with a storage of its own, in one memory

    def held() -> list[int]:
        return [place for place in range(10) if memory.holds(part(place, place + 1))]

    memory = Memory([part(0, 2), part(4, 6), part(8, 10)])
    assert held() == [0, 1, 4, 5, 8, 9]
    memory.add(part(1, 5))
    assert held() == [0, 1, 2, 3, 4, 5, 8, 9]
    memory.add(part(7, 8))
    memory.add(part(0, 10))
    assert held() == [*range(10)]

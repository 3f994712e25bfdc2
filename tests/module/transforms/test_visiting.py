"""Visiting: each Param once, in order, between the beginnings and ends of the fields around it."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations, parametrize

from burnlike.errors import MapperError, ParamPathError
from burnlike.module import (
    LazyParameter,
    LoraConfig,
    Module,
    ModuleArray,
    ModuleEnum,
    ModuleVisitor,
    Param,
    apply_lora,
    constant,
    param_at,
    params,
    visit,
)

from ..burn_layers import Basic, Composed
from ..cases import case


class Head(ModuleEnum): ...


class Everything(Module):
    def __init__(self) -> None:
        super().__init__()
        self.head = Head(Plain=Basic())
        self.array = ModuleArray([Basic()])
        self.option = Basic()
        self.nothing = None
        self.pair = (Basic(), None)
        self.named = {"left": Basic()}
        self.layers = [Basic(), [Basic()]]


class Kinds(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))
        self.register_buffer("mask", torch.zeros(2, dtype=torch.bool))
        self.register_buffer("table", torch.zeros(2), persistent=False)
        self.register_buffer("phase", torch.zeros(2, dtype=torch.complex64))
        self.weight = nn.Parameter(torch.zeros(2, dtype=torch.bfloat16))
        self.index = nn.Parameter(torch.zeros(2, dtype=torch.uint8), requires_grad=False)


class Recorder(ModuleVisitor):
    def __init__(self) -> None:
        self.calls: list[tuple[str, ...]] = []
        self.path: list[str] = []

    def visit_float(self, param: Param) -> None:
        self.calls.append(("float", param.path))

    def visit_int(self, param: Param) -> None:
        self.calls.append(("int", param.path))

    def visit_bool(self, param: Param) -> None:
        self.calls.append(("bool", param.path))

    def enter_module(self, name: str, container: str) -> None:
        self.path.append(name)
        self.calls.append(("enter", name, container))

    def exit_module(self, name: str, container: str) -> None:
        assert self.path.pop() == name
        self.calls.append(("exit", name, container))


def calls(module: nn.Module) -> list[tuple[str, ...]]:
    recorder = Recorder()
    visit(module, recorder)
    assert recorder.path == []
    return recorder.calls


def shown(module: nn.Module) -> list[tuple[str, ...]]:
    return [call for call in calls(module) if call[0] not in ("enter", "exit")]


def paths(module: nn.Module) -> list[str]:
    found: list[str] = []
    visit(module, lambda param: found.append(param.path))
    return found


@case("visitor/order")
def test_order_is_that_of_declaration_depth_first() -> None:
    expected = ["weight", "basic.weight_basic", "tuple.0.weight_basic", "tuple.1.weight_basic"]
    assert paths(Composed()) == expected
    assert [call[1] for call in calls(Composed()) if call[0] == "float"] == expected


@case("visitor/containers")
def test_each_field_begins_and_ends_with_its_container() -> None:
    begun = [call[1:] for call in calls(Everything()) if call[0] == "enter"]
    assert begun == [
        ("head", "Struct:Everything"),
        ("Plain", "Enum:Head"),
        ("weight_basic", "Struct:Basic"),
        ("array", "Struct:Everything"),
        ("0", "Array"),
        ("weight_basic", "Struct:Basic"),
        ("option", "Struct:Everything"),
        ("weight_basic", "Struct:Basic"),
        ("pair", "Struct:Everything"),
        ("0", "Tuple"),
        ("weight_basic", "Struct:Basic"),
        ("named", "Struct:Everything"),
        ("left", "Dict"),
        ("weight_basic", "Struct:Basic"),
        ("layers", "Struct:Everything"),
        ("0", "Vec"),
        ("weight_basic", "Struct:Basic"),
        ("1", "Vec"),
        ("0", "Vec"),
        ("weight_basic", "Struct:Basic"),
    ]


def test_a_parameter_in_a_list_begins_as_its_element() -> None:
    module = Module()
    module.scales = [nn.Parameter(torch.zeros(1))]
    assert calls(module) == [
        ("enter", "scales", "Struct:Module"),
        ("enter", "0", "Vec"),
        ("float", "scales.0"),
        ("exit", "0", "Vec"),
        ("exit", "scales", "Struct:Module"),
    ]


class Pair:
    """A container of the user's own."""

    def __init__(self, first: nn.Module, second: nn.Module) -> None:
        self.parts = (first, second)

    def module_children(self) -> dict[str, nn.Module]:
        return {"first": self.parts[0], "second": self.parts[1]}

    def with_module_children(self, children: dict[str, nn.Module]) -> "Pair":
        return Pair(children["first"], children["second"])


def tied() -> nn.Module:
    module = nn.ModuleDict({"a": nn.Linear(2, 2), "b": nn.Linear(2, 2)})
    module["b"].weight = module["a"].weight
    return module


def adapted(module: nn.Module) -> nn.Module:
    return apply_lora(module, LoraConfig(rank=1, alpha=1.0))


def normed(layer: nn.Module) -> nn.Module:
    return parametrizations.weight_norm(layer)


def held() -> nn.Module:
    module = Everything()
    module.own = Pair(Basic(), nn.Linear(1, 1))
    return module


@pytest.mark.parametrize(
    "make",
    [
        Composed,
        Everything,
        held,
        tied,
        lambda: nn.ParameterList([torch.zeros(1)]),
        lambda: nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)),
        lambda: adapted(tied()),
        lambda: adapted(Everything()),
        lambda: nn.Sequential(normed(nn.Linear(2, 2))),
        lambda: normed(adapted(nn.Linear(2, 2))),
        lambda: torch.compile(adapted(Composed()), backend="eager"),
    ],
)
def test_the_names_entered_are_the_path(make: Callable[[], nn.Module]) -> None:
    class Joiner(Recorder):
        def visit_float(self, param: Param) -> None:
            assert param.path == ".".join(self.path)
            super().visit_float(param)

        visit_int = visit_float

    joiner, module = Joiner(), make()
    visit(module, joiner)
    assert [call[1] for call in joiner.calls if call[0] == "float"] == paths(module)
    assert joiner.path == []


def test_each_kind_has_its_method_and_what_is_not_saved_is_not_visited() -> None:
    assert shown(Kinds()) == [
        ("float", "weight"),
        ("int", "index"),
        ("int", "count"),
        ("bool", "mask"),
        ("float", "phase"),
    ]


@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor")
def test_quantized_values_are_floats() -> None:
    module = nn.Module()
    module.register_buffer("packed", torch.quantize_per_tensor(torch.ones(2), 1.0, 0, torch.qint8))
    assert shown(module) == [("float", "packed")]


def test_lazy_parameters_stay_lazy() -> None:
    module = Basic()
    module.later = Param.uninitialized(lambda device: torch.ones(3, device=device), [3])
    assert shown(module) == [("float", "weight_basic"), ("float", "later")]
    assert type(module._parameters["later"]) is LazyParameter


def test_tied_tensors_and_shared_modules_are_visited_once() -> None:
    shared = nn.Linear(2, 2, bias=False)
    tied = nn.Linear(2, 2, bias=False)
    tied.weight = shared.weight
    assert paths(nn.Sequential(shared, nn.ReLU(), shared, tied)) == ["0.weight"]


@pytest.mark.parametrize(
    "wrapped", [lambda m: torch.compile(m, backend="eager"), nn.DataParallel], ids=["compile", "data_parallel"]
)
def test_wrappers_are_looked_through(wrapped: Any) -> None:
    inner = nn.Sequential(nn.Linear(1, 1))
    assert calls(wrapped(inner)) == calls(inner)
    assert paths(nn.Sequential(wrapped(nn.Linear(1, 1)))) == ["0.weight", "0.bias"]


def test_parametrizations_are_visited_with_their_own_parameters() -> None:
    class Scale(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.factor = nn.Parameter(torch.ones(1))

        def forward(self, weight: torch.Tensor) -> torch.Tensor:
            return weight * self.factor

    linear = nn.Linear(2, 2)
    before = [(param.path, param.id) for param in params(linear)]
    parametrize.register_parametrization(linear, "weight", Scale())
    found = {param.path: param.id for param in params(linear)}
    assert set(found) == {"bias", "parametrizations.weight.original", "parametrizations.weight.0.factor"}
    assert (found["parametrizations.weight.original"], found["bias"]) == (before[0][1], before[1][1])


def test_constants_are_not_visited() -> None:
    module = Basic()
    module.teacher = constant(Basic())
    assert paths(module) == ["weight_basic"]


def test_an_object_with_some_of_the_methods_is_a_visitor() -> None:
    class OnlyInts:
        def __init__(self) -> None:
            self.seen: list[str] = []

        def visit_int(self, param: Param) -> None:
            self.seen.append(param.path)

    class OnlyFields:
        def __init__(self) -> None:
            self.depth = self.deepest = 0

        def enter_module(self, name: str, container: str) -> None:
            self.depth += 1
            self.deepest = max(self.deepest, self.depth)

        def exit_module(self, name: str, container: str) -> None:
            self.depth -= 1

    ints, fields = OnlyInts(), OnlyFields()
    visit(Kinds(), ints)  # pyright: ignore
    visit(Everything(), fields)  # pyright: ignore
    assert ints.seen == ["index", "count"]
    assert (fields.deepest, fields.depth) == (4, 0)


@pytest.mark.parametrize("wrong", [None, 3, "weight"])
def test_what_is_no_visitor_is_refused(wrong: Any) -> None:
    with pytest.raises(MapperError, match=f"expected a function of a Param.*got {type(wrong).__name__}"):
        visit(Basic(), wrong)


def test_a_class_in_place_of_its_object_is_refused() -> None:
    with pytest.raises(MapperError, match=r"got the class Recorder; give Recorder\(\)"):
        visit(Basic(), Recorder)  # pyright: ignore


@pytest.mark.parametrize("where", ["visit_float", "enter_module", "exit_module"])
def test_fields_that_began_end_after_an_exception(where: str) -> None:
    visited = Everything()
    recorder = Recorder()
    original = getattr(recorder, where)
    count = 0

    def failing(*args: Any) -> None:
        nonlocal count
        count += 1
        original(*args)
        if count == 5:
            if where == "enter_module":  # a field whose beginning failed has no end
                recorder.path.pop()
            raise RuntimeError("stop")

    setattr(recorder, where, failing)
    with pytest.raises(RuntimeError, match="stop"):
        visit(visited, recorder)
    assert recorder.path == []


def test_what_a_visitor_raises_names_the_path() -> None:
    def check(param: Param) -> None:
        if param.path == "tuple.1.weight_basic":
            raise ValueError("not good")

    with pytest.raises(ValueError, match="not good") as caught:
        visit(Composed(), check)
    assert caught.value.__notes__ == ["at the parameter 'tuple.1.weight_basic' of Composed"]


def test_param_at_finds_any_path_of_a_tensor_and_names_the_nearest() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    model[1].weight = model[0].weight
    assert param_at(model, "1.weight").path == "0.weight"
    with pytest.raises(ParamPathError, match=r"Sequential has no parameter '1\.wait'; did you mean '1\.weight'\?"):
        param_at(model, "1.wait")
    with pytest.raises(ParamPathError, match=r"'1' is a module that holds 2, such as '1\.weight'"):
        param_at(model, "1")
    with pytest.raises(
        ParamPathError, match=r"no parameter 'zzz'; it has '0\.weight', '1\.weight', '0\.bias', '1\.bias'$"
    ):
        param_at(model, "zzz")
    with pytest.raises(ParamPathError, match=r"^ReLU has no parameter 'zzz'; it has none$"):
        param_at(nn.ReLU(), "zzz")
    with pytest.raises(TypeError, match=r"expected the path of a parameter, as 'layers\.0\.weight', got 1"):
        param_at(model, 1)  # pyright: ignore

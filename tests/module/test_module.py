"""Module: what its fields may be and become, and what torch does with it."""

import copy
import pickle
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import burnlike
from burnlike.backend import Autodiff, Cpu
from burnlike.errors import ModuleTreeError
from burnlike.module import Module, ModuleEnum, ModuleTuple, ModuleVec, Param, constant, params
from burnlike.module.identity.field_metadata import held_as
from burnlike.record import Record

from .burn_layers import Basic, Composed
from .cases import case
from .fields import Fields, linear

Typed = burnlike.Tensor


def weight() -> nn.Parameter:
    return nn.Parameter(torch.ones(2))


def places(module: nn.Module, name: str) -> list[str]:
    """Where `module` holds anything as `name`."""
    groups = ["_parameters", "_buffers", "_modules", "_non_persistent_buffers_set"]
    found = [group for group in groups if name in module.__dict__.get(group, ())]
    found += ["constant"] if held_as(module, name) == "constant" else []
    return found + (["__dict__"] if name in module.__dict__ else [])


SORTS: dict[str, Callable[[], Any]] = {
    "none": lambda: None,
    "number": lambda: 3,
    "function": lambda: len,
    "tensor": lambda: torch.zeros(2),
    "typed tensor": lambda: Typed(torch.zeros(2), Cpu()),
    "parameter": weight,
    "buffer": lambda: nn.Buffer(torch.zeros(2)),
    "passing buffer": lambda: nn.Buffer(torch.zeros(2), persistent=False),
    "param": lambda: Param.from_tensor(torch.ones(2)),
    "state param": lambda: Param.running(torch.ones(2)),
    "module": linear,
    "list": lambda: [linear()],
    "tuple": lambda: (weight(), linear()),
    "dict": lambda: {"a": linear()},
    "constant": lambda: constant(linear()),
}
PLACE = {
    "parameter": ["_parameters"],
    "param": ["_parameters"],
    "buffer": ["_buffers"],
    "state param": ["_buffers"],
    "passing buffer": ["_buffers", "_non_persistent_buffers_set"],
    "module": ["_modules"],
    "list": ["_modules"],
    "tuple": ["_modules"],
    "dict": ["_modules"],
    "constant": ["constant", "__dict__"],
}
# What torch registers keeps to its sort: only None and what replaces it whole may be assigned.
REGISTERED = {
    "parameter": {"none", "parameter", "param", "constant"},
    "buffer": {"none", "tensor", "parameter", "param", "buffer", "passing buffer", "state param", "module", "list"}
    | {"tuple", "dict", "constant"},
    "module": {"none", "parameter", "param", "module", "list", "tuple", "dict", "constant"},
}
REGISTERED["param"] = REGISTERED["parameter"]
REGISTERED["passing buffer"] = REGISTERED["state param"] = REGISTERED["buffer"]
REGISTERED["list"] = REGISTERED["tuple"] = REGISTERED["dict"] = REGISTERED["module"]


@pytest.mark.parametrize("before", SORTS)
@pytest.mark.parametrize("after", SORTS)
def test_a_field_of_one_sort_becomes_another_or_stays_whole(before: str, after: str) -> None:
    module = Fields(x=SORTS[before]())
    held, ids, where = module.x, [int(param.id) for param in params(module)], places(module, "x")
    value = SORTS[after]()
    if before in REGISTERED and after not in REGISTERED[before]:
        with pytest.raises(TypeError, match=r"cannot assign .* as (parameter|child module|buffer) 'x'"):
            module.x = value
        assert module.x is held
        assert places(module, "x") == where
        assert [int(param.id) for param in params(module)] == ids
        return
    module.x = value
    kept = REGISTERED.get(before) is not None and after in ("none", "tensor")
    assert places(module, "x") == (where if kept else PLACE.get(after, ["__dict__"]))
    assert len(params(module)) == len(list(module.state_dict()))
    assert len(params(copy.deepcopy(module))) == len(params(module))
    del module.x
    assert not hasattr(module, "x")
    assert not places(module, "x")


def test_a_parameter_that_was_none_for_a_while_is_the_same() -> None:
    module = Fields(bias=weight())
    (before,) = [param.id for param in params(module)]
    module.bias = None
    assert params(module) == []
    module.bias = weight()
    assert [param.id for param in params(module)] == [before]
    module.bias = None
    module.bias = Param.running(torch.zeros(2))
    assert [param.kind for param in params(module)] == ["state"]


def test_a_declared_param_brings_id_label_and_mappers() -> None:
    param = Param.from_tensor(torch.ones(2), name="scale", trainable=False).load_mapper(torch.neg)
    module = Fields(scale=param)
    assert isinstance(module.scale, nn.Parameter)
    (held,) = params(module)
    assert (held.id, held.name, held.trainable, held.path) == (param.id, "scale", False, "scale")


@pytest.mark.parametrize("value", [weight, linear, lambda: Param.from_tensor(torch.ones(2))])
def test_torchs_own_error_if_init_is_forgotten(value: Callable[[], Any]) -> None:
    class Forgetful(Module):
        def __init__(self) -> None:
            self.size = 3
            self.x = value()

    with pytest.raises(AttributeError, match=r"cannot assign \w+ before Module.__init__\(\) call"):
        Forgetful()


def test_fields_may_be_set_before_init() -> None:
    class Early(Module):
        def __init__(self) -> None:
            self.size = 3
            super().__init__()
            self.weight = weight()

    assert Early().size == 3
    assert [param.path for param in params(Early())] == ["weight"]


def test_no_forward_is_forced_and_any_value_is_a_field() -> None:
    lock = threading.Lock()
    module = Fields(lock=lock, kind=nn.Linear, text="a", items={"a": {1, 2}})
    assert module.lock is lock
    with pytest.raises(NotImplementedError):
        module(1)


def test_slots_are_refused_where_the_class_is_made() -> None:
    with pytest.raises(
        TypeError, match=r"Slotted has Slotted.__slots__ = \['weight'\]: fields in slots are seen by no"
    ):

        class Slotted(Module):
            __slots__ = ("weight",)

    class Mixin:
        __slots__ = ("extra", "more")

    with pytest.raises(TypeError, match=r"Mixed has Mixin.__slots__ = \['extra', 'more'\]"):

        class Mixed(Mixin, Module):
            pass

    class Empty(Module):
        __slots__ = ()

    Empty().x = 3


def test_a_part_in_a_slot_of_a_plain_module_is_an_error() -> None:
    class Slotted(nn.Module):
        __slots__ = ("hidden", "size", "weight")

        def __init__(self) -> None:
            super().__init__()
            self.weight = weight()  # torch registers it
            self.size = 3

    module = nn.Sequential(nn.ReLU(), Slotted())
    assert [param.path for param in params(module)] == ["1.weight"]
    object.__setattr__(module[1], "hidden", linear())
    module.add_module("other", nn.ReLU())
    with pytest.raises(ModuleTreeError, match=r"'1\.hidden' is a Linear in a slot of Slotted"):
        params(module)


class Moving(Module):
    def __init__(self) -> None:
        super().__init__()
        self.tensor = torch.ones(2)
        self.whole = torch.arange(2)
        self.tracked = torch.ones(2, requires_grad=True)
        self.typed = Typed(torch.ones(2), Cpu())
        self.tracking = Typed(torch.ones(2, requires_grad=True), Autodiff(Cpu()))
        self.inside = (linear(), torch.ones(2))
        self.list = [torch.ones(2), {"a": (Typed(torch.ones(2, 2), Cpu()),)}]
        self.text = ["a", "b"]

    def moved(self) -> list[Any]:
        return [self.tensor, self.tracked, self.typed.inner, self.tracking.inner, self.inside[1], self.list[0]]


@pytest.fixture(params=[False, True], ids=["set data", "swap"])
def _swap(request: pytest.FixtureRequest) -> Iterator[None]:
    before = torch.__future__.get_swap_module_params_on_conversion()
    torch.__future__.set_swap_module_params_on_conversion(request.param)
    yield
    torch.__future__.set_swap_module_params_on_conversion(before)


@pytest.mark.usefixtures("_swap")
@pytest.mark.parametrize("move", [lambda m: m.to(torch.float64), lambda m: m.double(), lambda m: m.type(torch.float64)])
def test_plain_and_typed_tensors_move_along(move: Callable[[Module], Module]) -> None:
    module = Moving()
    text = module.text
    nn.Sequential(move(module))
    assert {tensor.dtype for tensor in module.moved()} == {torch.float64}
    assert module.inside[0].weight.dtype == torch.float64
    inner = module.list[1]["a"][0]
    assert (inner.inner.dtype, inner.dtype, inner.backend) == (torch.float64, module.typed.dtype, Cpu())
    assert module.tracked.requires_grad
    assert module.tracked.is_leaf
    assert module.tracking.backend == Autodiff(Cpu())
    assert module.text is text
    (module.typed + module.typed).inner.sum()


def test_whole_numbers_keep_their_type_in_half_precision() -> None:
    module = Moving().half()
    assert (module.whole.dtype, module.tensor.dtype) == (torch.int64, torch.float16)


def test_tensors_follow_a_module_to_another_device() -> None:
    module = nn.Sequential(Moving()).to("meta")[0]
    assert (module.tensor.device.type, module.list[0].device.type) == ("meta", "meta")
    assert module.typed.inner.device.type == "cpu"  # no backend computes there


@pytest.mark.cuda
def test_tensors_follow_a_module_to_the_gpu() -> None:
    module = nn.Sequential(Moving()).to("cuda")[0]
    assert {tensor.device.type for tensor in module.moved()} == {"cuda"}
    assert module.tracking.backend.device.type == "cuda"
    assert module.tracking.backend.ad_enabled


class Counting(Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(2))
        self.register_buffer("passing", torch.zeros(2), persistent=False)
        self.step = 1
        self.last = torch.zeros(2)

    def forward(self, x: Tensor) -> Tensor:
        self.count = self.count + 1
        self.passing = self.passing + self.step
        self.last = x * 2
        self.step = 3
        self.new = "text"
        return self.count + self.last


def test_assignments_in_a_compiled_forward() -> None:
    eager, module = Counting(), Counting()
    compiled = torch.compile(module, backend="eager", fullgraph=True)
    for value in (1.0, 2.0):
        x = torch.full((2,), value)
        torch.testing.assert_close(compiled(x), eager(x))
    assert (module.step, module.new) == (3, "text")
    for name in ("count", "passing", "last"):
        torch.testing.assert_close(getattr(module, name), getattr(eager, name))
    assert list(module.state_dict()) == ["count"]
    assert [param.path for param in params(module)] == ["count"]


def test_assigning_a_buffer_asks_for_no_signature(monkeypatch: pytest.MonkeyPatch) -> None:
    module = Counting()

    def refuse(*args: object) -> None:
        raise AssertionError("slow")

    monkeypatch.setattr("inspect.signature", refuse)
    module.count = torch.ones(2)
    assert module._buffers["count"] is module.count


def test_registration_hooks_of_torch_see_buffers() -> None:
    module, seen = Counting(), []
    handle = nn.modules.module.register_module_buffer_registration_hook(lambda m, name, buffer: seen.append(name))
    try:
        module.count = torch.ones(2)
    finally:
        handle.remove()
    assert seen == ["count"]


class Guarded(Module):
    """Holds something that no copy can have, and says how to do without."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = weight()
        self.lock = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in super().__getstate__().items() if name != "lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self.lock = threading.Lock()


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda m: m.clone(), lambda m: pickle.loads(pickle.dumps(m))])
def test_copies_follow_the_states_that_a_class_gives(copied: Callable[[Any], Any]) -> None:
    module = Guarded()
    new = copied(module)
    assert new.lock is not module.lock
    assert [param.id for param in params(new)] == [param.id for param in params(module)]
    assert new.weight is not module.weight


def test_a_property_takes_the_list_that_it_is_given() -> None:
    class Adjusted(Module):
        @property
        def layers(self) -> list[nn.Module]:
            return list(self.held)

        @layers.setter
        def layers(self, value: list[nn.Module]) -> None:
            assert type(value) is list
            self.held = [*value, linear()]

    module = Adjusted()
    module.layers = [linear()]
    assert len(module.layers) == 2


def test_submodules_are_found_by_path_through_containers() -> None:
    module = Fields(vec=[linear(), {"a": (linear(),)}])
    assert module.get_submodule("vec.1.a.0") is module.vec[1]["a"][0]
    assert module.get_submodule("") is module
    assert module.get_parameter("vec.0.weight") is module.vec[0].weight
    with pytest.raises(AttributeError):
        module.get_submodule("vec.7")


class Nested(ModuleEnum):
    """Basic or Composed."""


class WithAttributes(Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(20, 20))
        self.nested = Nested(Basic=Basic())
        self.other_prob = 1.0
        self.tensor = torch.ones(2)
        self.register_buffer("cached_mask", torch.ones(2), persistent=False)
        self.debug_state = "Hello"
        self.config = {"kind": "Default"}


@case("derive/should_load_from_record_basic")
@pytest.mark.parametrize("make", [Basic, Composed])
def test_a_module_loads_the_record_of_another(make: Callable[[], Module], tmp_path: Path) -> None:
    first, second, third = make(), make(), make()
    first.clone().into_record().load_into(second)
    first.save(tmp_path / "module")
    third.load(tmp_path / "module")
    for one, two, three in zip(params(first), params(second), params(third), strict=True):
        assert torch.equal(one.tensor, two.tensor)
        assert torch.equal(one.tensor, three.tensor)
        assert one.id == two.id == three.id


@case("derive/should_load_from_record_based_on_attributes")
def test_a_record_holds_parameters_and_nothing_else() -> None:
    first, second = WithAttributes(), WithAttributes()
    first.cached_mask = first.cached_mask * 2
    first.tensor = first.tensor * 2
    first.other_prob = 0.0
    first.debug_state = "Hello World!"
    first.config = {"kind": "Other"}
    record = Record.from_module(first)
    assert sorted(record.tensors) == ["nested.Basic.weight_basic", "weight"]
    record.load_into(second)
    assert torch.equal(second.weight, first.weight)
    assert torch.equal(second.nested.value.weight_basic, first.nested.value.weight_basic)
    assert (second.other_prob, second.debug_state, second.config) == (1.0, "Hello", {"kind": "Default"})
    assert torch.equal(second.tensor, torch.ones(2))
    assert torch.equal(second.cached_mask, torch.ones(2))


def test_lists_of_constants_stay_what_they_are() -> None:
    numbers = list(range(10_000))
    module = Fields(numbers=numbers)
    assert module.numbers is numbers
    assert type(Fields(vec=[*numbers, linear()]).vec) is ModuleVec
    assert type(Fields(pair=(1, weight())).pair) is ModuleTuple


@pytest.mark.parametrize("cls", [Module, nn.Module])
def test_a_constant_may_hold_itself(cls: type[Any]) -> None:
    numbers: list[Any] = [1, torch.ones(1)]
    numbers.append({"all": numbers})
    module = cls()
    module.numbers = numbers
    assert module.numbers is numbers
    for copied in (burnlike.module.map(module, lambda param: param), burnlike.module.valid(module), module.double()):
        assert copied.numbers[0] == 1


NAMES = ["_fields", "_constants", "_held", "_held_by", "_container", "_upward", "_param_ids", "_stack_members", "_keys"]


@pytest.mark.parametrize("base", [nn.Module, Module])
@pytest.mark.parametrize("value", [["a", "b"], {"a": 1}, 3, "text"], ids=repr)
def test_attributes_of_the_program_may_have_any_name(base: type[nn.Module], value: Any) -> None:
    class Tabular(base):
        def __init__(self) -> None:
            super().__init__()
            self.weight = weight()
            for name in NAMES:
                setattr(self, name, value)

    module = Tabular()
    found = [burnlike.module.clone(module), burnlike.module.map(module, lambda param: param.tensor + 1)]
    for copied in (*found, burnlike.module.valid(module), copy.deepcopy(module)):
        assert [param.path for param in params(copied)] == ["weight"]
        assert all(getattr(copied, name) == value for name in NAMES)
    assert "weight" in burnlike.module.display(module)

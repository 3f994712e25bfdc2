"""Lists, tuples, dicts and enums as parts of a module tree."""

import copy
import pickle
from collections import OrderedDict, UserDict, UserList, deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from burnlike.errors import ModuleTreeError, RecordMismatchError
from burnlike.module import Module, ModuleArray, ModuleDict, ModuleEnum, ModuleTuple, ModuleVec, Param, constant, params
from burnlike.nn import LinearConfig

from ..burn_layers import Basic, Composed
from ..cases import case
from ..fields import Fields, bare, ids, linear, paths, values_and_labels


def twice(x: Tensor) -> Tensor:
    return x * 2


def everything() -> Fields:
    return Fields(
        vec=[linear(), None, 3, twice, [nn.Parameter(torch.ones(1)), linear()]],
        pair=(linear(), Param.running(torch.zeros(2))),
        heads={"left": linear(), "right": None, "width": 4, "inner": {"deep": (linear(),)}},
        none=None,
        numbers=[1, 2],
    )


EVERYTHING = [
    "vec.0.weight",
    "vec.4.0",
    "vec.4.1.weight",
    "pair.0.weight",
    "pair.1",
    "heads.left.weight",
    "heads.inner.deep.0.weight",
]


def test_nested_containers_mixed_with_constants_are_children() -> None:
    module = everything()
    assert paths(module) == EVERYTHING
    assert sorted(name for name, _ in module.named_parameters()) == sorted(set(EVERYTHING) - {"pair.1"})
    assert [name for name, _ in module.named_buffers()] == ["pair.1"]
    assert sorted(module.state_dict()) == sorted(EVERYTHING)
    assert (type(module.vec), type(module.pair), type(module.heads)) == (ModuleVec, ModuleTuple, ModuleDict)
    assert type(module.vec[4]) is ModuleVec
    assert type(module.heads["inner"]["deep"]) is ModuleTuple
    assert module.vec[1:4] is not module.vec
    assert list(module.vec[1:4]) == [None, 3, twice]
    assert module.heads["right"] is None
    assert module.heads["width"] == 4
    assert module.numbers == [1, 2]
    assert type(module.numbers) is list


def test_tuples_unpack_and_sequences_read_as_python_has_them() -> None:
    a, b, c = linear(), linear(), linear()
    module = Fields(pair=(a, b), vec=[a, b, c])
    first, second = module.pair
    assert (first, second) == (a, b)
    assert [*reversed(module.vec)] == [c, b, a]
    assert module.vec[-1] is c
    assert module.vec.index(b) == 1
    assert b in module.vec
    assert module.vec.count(a) == 1
    assert len(module.vec) == 3
    assert [*module.vec[::2]] == [a, c]
    with pytest.raises(IndexError, match=r"^ModuleVec of 3 items has no item 3$"):
        module.vec[3]
    with pytest.raises(TypeError, match="ModuleTuple of 2 items has no item 'a'"):
        module.pair["a"]
    with pytest.raises(TypeError):
        module.pair[0] = c


def test_sequences_are_joined_with_plus() -> None:
    a, b, c, scale = linear(), linear(), linear(), bare(1.0)
    module = Fields(vec=[a, scale], pair=(a, b))
    label = params(module)[1].with_name("scale").id
    more, one = [c], (c,)
    for joined in (module.vec + more, more + module.vec, module.vec + nn.ModuleList(more), module.vec + module.vec):
        assert type(joined) is ModuleVec
        assert len(joined) in (3, 4)
        (found,) = [param for param in params(joined) if param.tensor is scale]
        assert (found.id, found.name) == (label, "scale")
    assert [*(module.pair + one)] == [a, b, c]
    assert type(one + module.pair) is ModuleTuple
    assert len(module.vec) == len(module.pair) == 2
    module.vec += more
    module.vec = module.vec + more
    assert [*module.vec] == [a, scale, c, c]
    with pytest.raises(TypeError, match="unsupported operand"):
        module.vec + torch.ones(2)


@pytest.mark.parametrize(
    "copied",
    [
        copy.deepcopy,
        lambda m: m.clone(),
        lambda m: pickle.loads(pickle.dumps(m)),
        lambda m: m.map(lambda param: param.tensor + 1),
        lambda m: m.valid(),
    ],
    ids=["deepcopy", "clone", "pickle", "map", "valid"],
)
def test_copies_have_the_same_containers_and_ids(copied: Callable[[Any], Any]) -> None:
    module = everything()
    before = ids(module)
    new = copied(module)
    assert ids(new) == before
    assert new.vec[0] is not module.vec[0]
    assert new.vec[3] is twice
    assert len(new.vec) == len(module.vec)
    assert list(new.heads) == ["left", "right", "width", "inner"]
    new.vec.append(linear())
    assert len(module.vec) == 5
    assert paths(module) == EVERYTHING


def test_torch_moves_and_applies_to_what_containers_hold() -> None:
    module = everything().to(torch.float64)
    assert {tensor.dtype for tensor in module.state_dict().values()} == {torch.float64}
    seen = []
    module.apply(lambda part: seen.append(type(part).__name__))
    assert seen.count("Linear") == 5


def backwards(layers: list[Any]) -> Any:
    """torch.compile of torch 2.11 knows no `reversed` of a module."""
    return reversed(layers) if torch.__version__ >= (2, 13) else layers[::-1]


class Chain(Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = [linear() for _ in range(3)]
        self.pair = (linear(), twice)
        self.heads = {"left": linear()}

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x)
        for index, layer in enumerate(backwards(self.layers)):
            x = layer(x) + index + len(self.layers)
        layer, function = self.pair
        for head in self.heads.values():
            x = head(x)
        return function(layer(x)) + self.layers[-1](x) + self.heads["left"](x) + self.heads.left(x)


def test_loops_over_containers_compile_to_one_graph() -> None:
    module = Chain()
    graphs = []

    def backend(graph: torch.fx.GraphModule, example: object) -> Any:
        graphs.append(graph)
        return graph.forward

    compiled = torch.compile(module, backend=backend, fullgraph=True)
    x = torch.randn(2)
    torch.testing.assert_close(compiled(x), module(x))
    torch.testing.assert_close(compiled(x + 1), module(x + 1))
    assert len(graphs) == 1


def labelled() -> Fields:
    named = [Param.from_tensor(torch.full((2,), float(value)), name=f"p{value}") for value in range(3)]
    return Fields(vec=[named[0], linear(), named[1], named[2]])


@pytest.mark.parametrize(
    "change",
    [
        lambda vec: vec.insert(0, linear()),
        lambda vec: vec.insert(-1, bare(9.0)),
        lambda vec: vec.reverse(),
        lambda vec: vec.__delitem__(1),
        lambda vec: vec.__setitem__(slice(None), vec[::-1]),
        lambda vec: vec.__setitem__(slice(None), [*vec][::-1]),
        lambda vec: vec.extend([linear(), 3]),
        lambda vec: vec.pop(1),
        lambda vec: vec.remove(vec[1]),
    ],
    ids=["insert", "insert bare", "reverse", "del", "slice of vec", "slice of list", "extend", "pop", "remove"],
)
def test_ids_and_labels_move_along_with_bare_parameters(change: Callable[[ModuleVec], object]) -> None:
    module = labelled()
    before = values_and_labels(module)
    assert [label for _, label in before.values()] == ["p0", "p1", "p2"]
    change(module.vec)
    after = values_and_labels(module)
    assert {key: after[key] for key in before} == before
    assert [param.path for param in params(module)] == [
        f"vec.{index}" + (".weight" if isinstance(item, nn.Module) else "")
        for index, item in enumerate(module.vec)
        if isinstance(item, nn.Module | nn.Parameter)
    ]


def test_a_vec_changes_as_a_list_does() -> None:
    items: list[Any] = [linear() for _ in range(5)]
    vec, plain = ModuleVec(items), [*items]
    extra = linear()
    for same in (vec, plain):
        same.append(extra)
        del same[1:3]
        same[0] = None
        same[1:2] = [extra, 7]
        same.insert(100, items[0])
        same += [items[1]]
        assert same.pop() is items[1]
    assert [*vec] == plain
    vec.clear()
    assert len(vec) == 0
    assert paths(vec) == []
    assert not vec.state_dict()
    vec.append(items[2])
    assert paths(vec) == ["0.weight"]


def test_constants_and_references_stay_what_they_are_when_items_move() -> None:
    teacher = linear()
    module = Fields(vec=[constant(teacher), linear(), twice])
    module.vec.insert(0, linear())
    assert module.vec[1] is teacher
    assert paths(module) == ["vec.0.weight", "vec.2.weight"]


def test_a_refused_change_leaves_the_vec_as_it_was() -> None:
    module = labelled()
    before, items = ids(module), [*module.vec]
    with pytest.raises(ModuleTreeError, match="texts without dots"):
        module.vec.insert(1, {"a.b": linear()})
    assert ids(module) == before
    assert [*module.vec] == items
    fields = [*module.vec.__dict__["_burnlike"]]
    with pytest.raises(ModuleTreeError, match="texts without dots"):
        module.vec.extend([linear(), {"a.b": linear()}])
    assert [*module.vec.__dict__["_burnlike"]] == fields
    assert [*module.vec] == items


def test_an_empty_list_stays_a_list_but_in_the_place_of_a_vec() -> None:
    module = Fields(layers=[])
    assert module.layers == []
    module.layers = [linear()]
    module.layers = []
    assert type(module.layers) is ModuleVec
    module.layers.append(linear())
    assert paths(module) == ["layers.0.weight"]


def test_dicts_change_as_dicts_do() -> None:
    module = Fields(heads=OrderedDict(b=linear(), a=linear()))
    heads = module.heads
    assert list(heads) == ["b", "a"]
    del heads["b"]
    heads["c"] = linear()
    heads.update(d=None, e=linear())
    popped = heads.pop("a")
    assert isinstance(popped, nn.Linear)
    assert list(heads.keys()) == ["c", "d", "e"]
    assert paths(module) == ["heads.c.weight", "heads.e.weight"]
    assert "a" not in heads
    with pytest.raises(KeyError):
        heads["a"]
    with pytest.raises(KeyError):
        del heads["forward"]
    assert heads.get("a") is None
    assert heads == module.heads
    assert heads != ModuleDict()
    assert len({heads, heads}) == 1


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (1, r"Fields\.heads: expected names of modules to be texts without dots, got 1; use another name, such as '1'"),
        ("a.b", "got 'a.b'; use another name, such as 'a_b'"),
        ("", "got ''"),
        ("train", "'train' can't name a module, since it is an attribute of ModuleDict already"),
    ],
)
def test_names_that_no_path_can_have_are_refused(name: Any, message: str) -> None:
    module = Fields()
    with pytest.raises(ModuleTreeError, match=message):
        module.heads = {name: linear()}
    assert not hasattr(module, "heads")
    with pytest.raises(ModuleTreeError):
        ModuleDict()[name] = linear()


def test_arrays_hold_modules_of_one_class() -> None:
    module = Fields(array=ModuleArray([linear(), linear()]))
    assert paths(module) == ["array.0.weight", "array.1.weight"]
    assert type(module.array[:1]) is ModuleArray
    with pytest.raises(
        ModuleTreeError, match=r"items of one class in a ModuleArray, got torch.*\.Linear, burnlike.*\.Linear;"
    ):
        ModuleArray([linear(), LinearConfig(d_input=1, d_output=1).init()])


class Head(ModuleEnum):
    """Several kinds of head."""


def test_an_enum_is_one_of_its_variants() -> None:
    head = Head(Deep=[linear(), linear()])
    assert head.variant == "Deep"
    assert head.value is head.Deep
    assert paths(Fields(head=head)) == ["head.Deep.0.weight", "head.Deep.1.weight"]
    assert Head(Absent=None).value is None
    with pytest.raises(ModuleTreeError, match=r"Head: expected one variant=module, got \['a', 'b'\]"):
        Head(a=linear(), b=linear())
    with pytest.raises(ModuleTreeError, match="Head: 'value' can't name a module"):
        Head(value=linear())


class Variant(ModuleEnum):
    """Basic or Composed."""


@case("derive/should_load_from_record_enum")
@pytest.mark.parametrize("make", [lambda: Variant(Basic=Basic()), lambda: Variant(Composed=Composed())])
def test_an_enum_loads_the_record_of_its_variant(make: Callable[[], Variant]) -> None:
    first, second = make(), make()
    first.into_record().load_into(second)
    for ours, theirs in zip(params(second), params(first), strict=True):
        assert torch.equal(ours.tensor, theirs.tensor)


@case("derive/should_panic_load_from_incorrect_enum_variant")
def test_an_enum_refuses_the_record_of_another_variant(tmp_path: Path) -> None:
    Variant(Basic=Basic()).save(tmp_path / "basic")
    other = Variant(Composed=Composed())
    before = other.value.weight.detach().clone()
    with pytest.raises(RecordMismatchError, match=r"Basic\.weight_basic"):
        other.load(tmp_path / "basic")
    assert torch.equal(other.value.weight, before)


@case("num_params/enum")
def test_an_enum_counts_its_variant() -> None:
    assert Variant(Basic=Basic()).num_params() == 400
    assert Variant(Composed=Composed()).num_params() == 1600


class Filled(Module):
    """A list that is filled after it was assigned, as PyTorch code does it."""

    def __init__(self, register: bool) -> None:
        super().__init__()
        self.layers: Any = []
        self.widths: list[int] = []
        self.by_name: dict[str, list[nn.Module]] = {}
        for width in (1, 2):
            layer = nn.Linear(width, 1)
            if register:
                self.add_module(f"layer{width}", layer)
                self.by_name[f"layer{width}"] = [layer]
            self.layers.append(layer)
            self.widths.append(width)


def test_a_list_that_got_modules_too_late_is_not_passed_over_in_silence() -> None:
    filled = Filled(register=False)
    message = r"Filled\.layers was assigned before it held the Linear .* begin with burnlike\.module\.ModuleVec\(\)"
    with pytest.raises(ModuleTreeError, match=message):
        filled.params()
    filled.layers = filled.layers
    assert [param.path for param in filled.params()] == [f"layers.{i}.{n}" for i in (0, 1) for n in ("weight", "bias")]


@dataclass
class Record:
    part: Any
    note: str = ""


def in_collections(part: Any) -> dict[str, Any]:
    """`part` in each kind of collection that is no part of a tree."""
    return {
        "deque": deque([1, part]),
        "set": {part},
        "frozenset": frozenset([part]),
        "UserList": UserList([part]),
        "UserDict": UserDict(part=part),
        "mappingproxy": MappingProxyType({"part": part}),
        "SimpleNamespace": SimpleNamespace(part=part),
        "Record": Record(part),
    }


@pytest.mark.parametrize("kind", in_collections(0))
def test_other_collections_of_modules_and_parameters_are_refused_by_name(kind: str) -> None:
    for part in (linear(), nn.Parameter(torch.ones(2))):
        value = in_collections(part)[kind]
        for field in (value, [value], {"a": [2, value]}, [linear(), value]):
            with pytest.raises(ModuleTreeError, match=rf": a {kind} holds a {type(part).__name__}, which would be"):
                Fields(field=field)
        with pytest.raises(ModuleTreeError, match=rf"ModuleVec\.1: a {kind} holds a {type(part).__name__}"):
            ModuleVec([linear()]).append(value)
        assert Fields(field=constant(value)).field is value
    layer = linear()
    assert paths(Fields(layer=layer, field=in_collections(layer)[kind])) == ["layer.weight"]
    assert paths(Fields(field=in_collections(3)[kind])) == []


@pytest.mark.parametrize("kind", ["deque", "UserDict", "SimpleNamespace", "Record"])
def test_a_collection_that_got_a_module_too_late_is_not_passed_over_in_silence(kind: str) -> None:
    value = in_collections(None)[kind]
    fields = Fields(layer=linear(), field=value)
    assert paths(fields) == ["layer.weight"]
    layer = linear()
    if kind == "deque":
        value.append(layer)
    elif kind == "UserDict":
        value["more"] = layer
    else:
        value.part = layer
    with pytest.raises(ModuleTreeError, match=r"Fields\.field was assigned before it held the Linear"):
        fields.params()


def test_a_list_of_what_are_children_anyway_is_one_of_the_users_own() -> None:
    filled = Filled(register=True)
    assert isinstance(filled.layers, list)
    assert [param.path for param in filled.params()] == [f"layer{i}.{n}" for i in (1, 2) for n in ("weight", "bias")]
    filled.by_name["other"] = [nn.Linear(1, 1)]
    with pytest.raises(ModuleTreeError, match=r"Filled\.by_name"):
        filled.params()
    filled.by_name = constant({"other": [nn.Linear(1, 1)]})
    assert len(filled.params()) == 4


def test_an_insertion_assigns_the_new_item_alone() -> None:
    layers = ModuleVec([nn.Linear(1, 1) for _ in range(200)])
    before = list(layers)
    registered: list[str] = []
    hook = torch.nn.modules.module.register_module_module_registration_hook(
        lambda module, name, part: registered.append(name) if module is layers else None
    )
    try:
        layers.insert(0, nn.Identity())
        layers.insert(150, nn.Identity())
        layers.extend([nn.Identity()])
        layers.reverse()
        del layers[5]
    finally:
        hook.remove()
    assert len(registered) == 3
    expected = [None, *before]
    expected.insert(150, None)
    expected = [*expected, None][::-1]
    del expected[5]
    assert len(layers) == len(expected) == 202
    assert all(wanted is None or found is wanted for found, wanted in zip(layers, expected, strict=True))
    assert list(layers._modules) == [str(index) for index in range(202)]


def test_ids_labels_and_what_is_not_saved_go_along_with_moved_items() -> None:
    layers = ModuleVec([Param.from_data([float(index)], name=f"p{index}") for index in range(3)])
    layers.append(nn.Buffer(torch.ones(1), persistent=False))
    layers.append(constant([1]))
    known = {param.name: param.id for param in params(layers)}
    layers.insert(1, None)
    layers.reverse()
    layers[1:3] = [layers[2], layers[1]]
    assert layers[0] == [1]
    assert {param.name: param.id for param in params(layers)} == known
    assert [param.tensor.item() for param in params(layers)] == [2.0, 1.0, 0.0]
    assert list(layers.state_dict()) == [param.path for param in params(layers)]
    tensors = list(layers)
    with pytest.raises(ModuleTreeError):
        layers.insert(2, {"a.b": nn.Linear(1, 1)})
    assert all(found is wanted for found, wanted in zip(layers, tensors, strict=True)), "all or nothing"
    assert {param.name: param.id for param in params(layers)} == known


def test_an_item_that_is_inserted_twice_is_tied() -> None:
    layers = ModuleVec([Param.from_data([1.0]), Param.from_data([2.0])])
    layers.insert(0, layers[1])
    assert [(param.path, param.aliases) for param in params(layers)] == [("0", ("2",)), ("1", ())]

"""Lists, tuples, dicts, enums and users' own containers as parts of a module tree."""

import copy
import gc
import io
import pickle
import weakref
from collections import OrderedDict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn

from burnlike import func
from burnlike.errors import ModuleTreeError, RecordMismatchError
from burnlike.module import (
    Module,
    ModuleArray,
    ModuleDict,
    ModuleEnum,
    ModuleTuple,
    ModuleVec,
    Param,
    constant,
    params,
)
from burnlike.module import map as map_module
from burnlike.module.registry import walk_of
from burnlike.nn import LinearConfig

from .burn_layers import Basic, Composed
from .cases import case


def linear(d_input: int = 2, d_output: int = 2) -> nn.Linear:
    return nn.Linear(d_input, d_output, bias=False)


class Fields(Module):
    """A module with the fields that it is given."""

    def __init__(self, **fields: Any) -> None:
        super().__init__()
        for name, value in fields.items():
            setattr(self, name, value)


def paths(module: nn.Module) -> list[str]:
    return [param.path for param in params(module)]


def ids(module: nn.Module) -> dict[str, int]:
    return {param.path: int(param.id) for param in params(module)}


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


class Chain(Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = [linear() for _ in range(3)]
        self.pair = (linear(), twice)
        self.heads = {"left": linear()}

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x)
        for index, layer in enumerate(reversed(self.layers)):
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


def bare(value: float) -> nn.Parameter:
    return nn.Parameter(torch.full((2,), value))


def labelled() -> Fields:
    named = [Param.from_tensor(torch.full((2,), float(value)), name=f"p{value}") for value in range(3)]
    return Fields(vec=[named[0], linear(), named[1], named[2]])


def values_and_labels(module: Fields) -> dict[int, tuple[float, str | None]]:
    return {int(p.id): (p.tensor.flatten()[0].item(), p.name) for p in params(module) if p.tensor.ndim == 1}


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
    fields = [*module.vec.__dict__["_burnlike_fields"]]
    with pytest.raises(ModuleTreeError, match="texts without dots"):
        module.vec.extend([linear(), {"a.b": linear()}])
    assert [*module.vec.__dict__["_burnlike_fields"]] == fields
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


class Branches:
    """A user's container: two modules, a list of more, a bare parameter, and a number."""

    def __init__(self, left: Any, right: Any, more: Any, scale: Any, width: int = 3) -> None:
        self.left, self.right, self.more, self.scale, self.width = left, right, more, scale, width

    def module_children(self) -> dict[str, Any]:
        return {
            "left": self.left,
            "right": self.right,
            "more": [*self.more],
            "scale": self.scale,
            "width": self.width,
        }

    def with_module_children(self, children: Mapping[str, Any]) -> "Branches":
        return Branches(**children)

    def __call__(self, x: Tensor) -> Tensor:
        x = self.left(x) + self.right(x)
        for layer in self.more:
            x = layer(x)
        return x * self.scale * self.width


class Tree(Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = linear()
        self.branches = Branches(linear(), linear(), [linear(), linear()], bare(2.0))

    def forward(self, x: Tensor) -> Tensor:
        return self.branches(self.first(x))


TREE = [
    "first.weight",
    "branches.left.weight",
    "branches.right.weight",
    "branches.more.0.weight",
    "branches.more.1.weight",
    "branches.scale",
]


def test_a_users_container_joins_the_tree() -> None:
    tree = Tree()
    assert type(tree.branches) is Branches
    assert paths(tree) == TREE
    assert sorted(name for name, _ in tree.named_parameters()) == sorted(TREE)
    assert sorted(tree.state_dict()) == sorted(TREE)
    assert walk_of(tree) is walk_of(tree)
    before = tree.branches
    walk = walk_of(tree)
    tree(torch.ones(2)).sum().backward()
    tree.train(False).requires_grad_(False)
    tree.zero_grad()
    assert walk_of(tree) is walk
    assert tree.branches is before


def add_layer(tree: Tree) -> None:
    tree.branches.more.append(linear())


def names_of(module: nn.Module, read: str) -> list[str]:
    if read == "params":
        return paths(module)
    if read == "state_dict":
        return list(module.state_dict())
    if read == "children":
        held = dict(module.named_children())["branches"]
        inner = dict(dict(held.named_children())["more"].named_children())
        return [f"branches.more.{name}.weight" for name in inner]
    return [name for name, _ in module.named_parameters()]


@pytest.mark.parametrize("read", ["parameters", "params", "state_dict", "children"])
def test_what_the_program_changes_in_the_container_is_seen(read: str) -> None:
    tree = Tree()
    walk_of(tree)
    before = ids(tree)
    tree.branches.more.append(linear())
    assert "branches.more.2.weight" in names_of(tree, read)
    tree.branches.more.pop(0)
    assert "branches.more.2.weight" not in names_of(tree, read)
    tree.branches.right = None
    tree.branches.scale = 1.0
    assert not {"branches.right.weight", "branches.scale"} & set(names_of(tree, read))
    tree.branches.right = linear()
    assert ids(tree)["branches.left.weight"] == before["branches.left.weight"]
    assert paths(tree) == [path for path in TREE if path != "branches.scale"]


def test_loading_reaches_what_the_program_put_in() -> None:
    tree = Tree()
    tree.branches.left = linear()
    state = {name: torch.full_like(value, 3.0) for name, value in tree.state_dict().items()}
    tree.branches.left = linear()
    tree.load_state_dict(state)
    assert tree.branches.left.weight[0, 0].item() == 3.0


@pytest.mark.parametrize("path", ["branches.left", "branches.more.1"])
def test_a_layer_that_a_tool_replaces_is_replaced_in_the_container(path: str) -> None:
    tree = Tree()
    before = ids(tree)
    parent, _, name = path.rpartition(".")
    new = nn.Sequential(linear())
    setattr(dict(tree.named_modules())[parent], name, new)
    found = tree.branches.left if name == "left" else tree.branches.more[1]
    assert found is new
    assert f"{path}.0.weight" in paths(tree)
    assert type(tree.branches.more) is list
    assert {key: value for key, value in ids(tree).items() if key in before}.items() <= before.items()
    walk = walk_of(tree)
    assert walk_of(tree) is walk


def test_a_parameter_that_torch_replaces_is_replaced_in_the_container() -> None:
    tree = Tree()
    tree.load_state_dict({name: torch.zeros_like(value) for name, value in tree.state_dict().items()}, assign=True)
    assert torch.equal(tree.branches.scale, torch.zeros(2))
    tree.param("branches.scale").assign(torch.ones(2))
    assert torch.equal(tree.branches.scale, torch.ones(2))
    assert tree.branches.scale is tree.param("branches.scale").tensor
    tree.to("meta").to_empty(device="cpu")
    assert tree.branches.scale.device.type == "cpu"
    assert paths(tree) == TREE


@pytest.mark.parametrize(
    "copied",
    [
        copy.deepcopy,
        lambda m: m.clone(),
        lambda m: pickle.loads(pickle.dumps(m)),
        lambda m: m.map(lambda param: param.tensor.clone()),
        lambda m: m.valid(),
    ],
    ids=["deepcopy", "clone", "pickle", "map", "valid"],
)
def test_copies_of_a_users_container_are_their_own(copied: Callable[[Tree], Tree]) -> None:
    tree = Tree()
    before = ids(tree)
    x = torch.ones(2)
    new = copied(tree)
    torch.testing.assert_close(new(x), tree(x))
    assert ids(new) == before
    assert new.branches is not tree.branches
    assert new.branches.left is not tree.branches.left
    assert new.branches.more[0] is new.get_submodule("branches.more.0")
    assert new.branches.scale is new.get_parameter("branches.scale")
    new.branches.more.pop()
    assert len(params(new)) == len(TREE) - 1
    assert paths(tree) == TREE
    with torch.no_grad():
        new.param("branches.left.weight").assign(torch.zeros(2, 2))
    assert not torch.equal(tree.branches.left.weight, new.branches.left.weight)


def test_mapped_values_are_those_that_the_container_computes_with() -> None:
    tree = Tree()
    zero = map_module(tree, lambda param: torch.zeros_like(param.tensor))
    assert torch.equal(zero(torch.ones(2)), torch.zeros(2))
    assert not torch.equal(tree(torch.ones(2)), torch.zeros(2))


def test_a_users_container_is_saved_and_loaded(tmp_path: Path) -> None:
    first, second = Tree(), Tree()
    first.save(tmp_path / "tree")
    second.load(tmp_path / "tree")
    x = torch.randn(2)
    assert torch.equal(first(x), second(x))
    file = io.BytesIO()
    torch.save(first, file)
    file.seek(0)
    assert torch.equal(torch.load(file, weights_only=False)(x), first(x))


def test_a_users_container_compiles_to_one_graph() -> None:
    tree = Tree()
    x = torch.randn(2)
    torch.testing.assert_close(torch.compile(tree, backend="eager", fullgraph=True)(x), tree(x))


def test_transforms_reach_the_bare_parameters_of_a_container() -> None:
    tree, x = Tree(), torch.ones(2)
    gradients = func.grad(lambda module: module(x).sum())(tree)
    tree(x).sum().backward()
    torch.testing.assert_close(gradients.branches.scale.detach(), tree.branches.scale.grad)
    assert type(gradients.branches) is Branches
    both = func.stack([tree, tree.clone(new_ids=True)])
    found = func.vmap(lambda module, x: module(x), in_dims=(0, None))(both, x)
    torch.testing.assert_close(found, tree(x).expand(2, 2))


def test_a_bare_parameter_becomes_a_constant_or_a_plain_tensor() -> None:
    tree = Tree()
    expected = [path for path in TREE if path != "branches.scale"]
    for value in (1.0, torch.ones(2), None):
        tree.branches.scale = bare(2.0)
        assert paths(tree) == TREE
        tree.branches.scale = value
        assert paths(tree) == expected
        assert len(params(tree.valid())) == len(expected)
        assert tree.branches.scale is value


def nested() -> Fields:
    inner = Branches(linear(), linear(), [], bare(1.0))
    outer = Branches(inner, linear(), [Branches(linear(), linear(), [linear()], bare(1.0))], bare(1.0))
    return Fields(list=[outer, linear()])


NESTED = [
    "list.0.left.left.weight",
    "list.0.left.right.weight",
    "list.0.left.scale",
    "list.0.right.weight",
    "list.0.more.0.left.weight",
    "list.0.more.0.right.weight",
    "list.0.more.0.more.0.weight",
    "list.0.more.0.scale",
    "list.0.scale",
    "list.1.weight",
]


def test_containers_within_containers_and_lists() -> None:
    module = nested()
    assert paths(module) == NESTED
    assert walk_of(module) is walk_of(module)
    x = torch.ones(2)
    expected = module.list[0](x)
    zeros = module.map(lambda param: torch.zeros_like(param.tensor))
    assert torch.equal(zeros.list[0](x), torch.zeros(2))
    assert torch.equal(module.list[0](x), expected)
    for copied in (copy.deepcopy(module), module.clone(), pickle.loads(pickle.dumps(module)), module.valid()):
        assert torch.equal(copied.list[0](x), expected)
        assert paths(copied) == NESTED
    module.list.insert(0, linear())
    assert type(module.list[1]) is Branches
    assert len(paths(module)) == len(NESTED) + 1


def test_copying_a_part_alone_leaves_the_container_of_the_original() -> None:
    tree = Tree()
    before = tree.branches
    copied = copy.deepcopy(tree.get_submodule("branches")).to(torch.float64)
    copied.left = linear()
    assert (copied.left.weight.dtype, copied.right.weight.dtype) == (torch.float32, torch.float64)
    assert tree.branches is before
    assert tree(torch.ones(2)).dtype == torch.float32


@pytest.mark.parametrize(
    "made_from",
    [
        lambda module: module,
        copy.deepcopy,
        Module.clone,
        Module.valid,
        lambda module: module.map(lambda param: param.tensor + 1),
        lambda module: pickle.loads(pickle.dumps(module)),
    ],
)
def test_a_module_with_users_containers_is_freed_at_once(made_from: Callable[[Any], Any]) -> None:
    original = nested()
    gc.collect()
    gc.disable()
    try:
        module = made_from(nested() if made_from(original) is original else original)
        paths(module)
        held = [weakref.ref(part) for part in (*module.modules(), *module.parameters())]
        del module
        assert [found() for found in held if found() is not None] == []
    finally:
        gc.enable()


@pytest.mark.parametrize("parent", ["list.0.left", "list.0.more.0", "list.0.more.0.more"])
def test_a_replaced_layer_reaches_every_container_around_it(parent: str) -> None:
    module = nested()
    new = linear()
    setattr(module.get_submodule(parent), "0" if parent.endswith("more") else "left", new)
    outer = module.list[0]
    found = {
        "list.0.left": lambda: outer.left.left,
        "list.0.more.0": lambda: outer.more[0].left,
        "list.0.more.0.more": lambda: outer.more[0].more[0],
    }
    assert found[parent]() is new
    assert paths(module) == NESTED


def test_bare_parameters_in_a_containers_list_keep_their_ids() -> None:
    module = Fields(held=Branches(linear(), linear(), [bare(1.0), bare(2.0)], bare(3.0)))
    before = values_and_labels(module)
    module.held.more.insert(0, linear())
    after = values_and_labels(module)
    assert {key: value for key, value in after.items() if key in before} == before


class Pair(NamedTuple):
    left: Any
    right: Any


def test_named_tuples_keep_their_names() -> None:
    module = Fields(pair=Pair(linear(), 3))
    assert type(module.pair) is Pair
    assert paths(module) == ["pair.left.weight"]
    doubled = module.map(lambda param: param.tensor * 2)
    torch.testing.assert_close(doubled.pair.left.weight, module.pair.left.weight * 2)
    assert doubled.pair.right == 3
    assert type(Fields(point=Pair(1, 2)).point) is Pair


class Half:
    def module_children(self) -> dict[str, Any]:
        return {}


class Forgetful(Branches):
    def with_module_children(self, children: Mapping[str, Any]) -> "Forgetful":
        return Forgetful(linear(), linear(), [], 1.0)


class Nothing(Branches):
    def with_module_children(self, children: Mapping[str, Any]) -> Any:
        return None


def test_containers_that_break_their_word_are_told_so() -> None:
    module = Fields()
    with pytest.raises(ModuleTreeError, match=r"Fields\.part: .* Half lacks with_module_children"):
        module.part = Half()
    assert not hasattr(module, "part")
    with pytest.raises(ModuleTreeError, match=r"Forgetful\.with_module_children gave .* not those it was given"):
        Fields(held=Forgetful(linear(), linear(), [], 1.0)).valid()
    with pytest.raises(ModuleTreeError, match=r"Nothing\.with_module_children gave NoneType: expected another Nothing"):
        Fields(held=Nothing(linear(), linear(), [], 1.0)).valid()


def test_a_field_with_a_users_container_can_become_something_else() -> None:
    tree = Tree()
    tree.branches = None
    assert tree.branches is None
    assert paths(tree) == ["first.weight"]
    tree.branches = Branches(linear(), None, [], 1.0)
    tree.branches = linear()
    assert paths(tree) == ["first.weight", "branches.weight"]
    tree.branches = Branches(linear(), None, [], 1.0)
    del tree.branches
    assert not hasattr(tree, "branches")
    assert paths(tree) == ["first.weight"]

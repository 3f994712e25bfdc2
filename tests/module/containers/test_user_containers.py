"""Users' own containers, named tuples among them, as parts of a module tree."""

import copy
import gc
import io
import pickle
import weakref
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from burnlike import func
from burnlike.errors import ModuleTreeError
from burnlike.module import Module, constant, map as map_module, params
from burnlike.module.tree.walk import walk_of

from ..fields import Fields, bare, ids, linear, paths, values_and_labels


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
    inner = copy.deepcopy(tree.get_submodule("branches.more"))
    inner.to(torch.float64)
    setattr(inner, "0", linear())
    assert [weight.dtype for weight in inner.parameters()] == [torch.float32, torch.float64]
    assert tree.branches is before


def test_what_a_tool_writes_past_the_module_is_seen_at_the_next_look() -> None:
    tree = Tree()
    new = linear()
    dict(tree.named_modules())["branches"]._modules["left"] = new
    dict(tree.named_modules())["branches.more"]._modules["1"] = new
    tree.branches.right = linear()
    before = tree.branches.right
    assert paths(tree) == TREE[:4] + TREE[5:]
    assert (tree.branches.left, tree.branches.more[1], tree.branches.right) == (new, new, before)


def test_a_plain_tensor_in_a_container_moves_with_the_module() -> None:
    module = Fields(part=Branches(linear(), linear(), [], torch.ones(2)))
    module.to(torch.float64)
    assert module.part.scale.dtype == torch.float64


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
    with pytest.raises(ModuleTreeError, match=r"Branches\.module_children: 'left' is only referred to: leave it out"):
        module.part = Branches(constant(linear()), linear(), [], 1.0)
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


def test_a_tool_can_not_take_a_bare_parameter_away() -> None:
    tree = Tree()
    branches = tree.get_submodule("branches")
    with pytest.raises(ModuleTreeError, match=r"'scale' belongs to a Branches, .*: put the parameter into a module"):
        parametrize.register_parametrization(branches, "scale", nn.Softplus())
    assert paths(tree) == TREE

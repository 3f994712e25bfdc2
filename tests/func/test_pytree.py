"""Registered classes of modules as pytrees: `torch.func`, tree functions and `torch.compile` take instances."""

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

import burnlike as bl
from burnlike import func, mlax
from burnlike.errors import ArgumentError
from tests.func.models import assert_no_traced_tensor, assert_untouched, batch, reference_gradients, snapshot

from ..marks import slow, weekly
from ..torch_versions import copies_in_compiled_code


@func.register_pytree
class Stock(nn.Module):
    """As written for torch, with a buffer of whole numbers that is not saved."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 3)
        self.register_buffer("position", torch.arange(3), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x) * self.position


@func.register_pytree
class Stateful(bl.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = [Stock(), Stock()]
        self.mean = bl.Param.running(torch.zeros(3))

    def forward(self, x: Tensor) -> Tensor:
        self.mean = self.mean * 0.5 + x.mean(0)
        return self.layers[1](self.layers[0](x) + self.mean)


@func.register_pytree
class Handles(mlax.Module):
    def __init__(self) -> None:
        self.w = mlax.Parameter(True, torch.randn(3, 3))
        self.many = mlax.Parameter(True, {"a": torch.randn(3), "b": [torch.randn(3)]})
        self.frozen = mlax.Parameter(False, torch.ones(3))

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.w.data * self.many.data["a"] + self.many.data["b"][0] * self.frozen.data


CLASSES = [Stock, Stateful, Handles]


def made(cls: type[nn.Module]) -> tuple[Any, Tensor]:
    torch.manual_seed(0)
    module = cls().to(torch.float64)
    return module, batch(module)


def loss(t: nn.Module, n: nn.Module, x: Tensor) -> Tensor:
    return func.fwd(t, n, x=x)[0].pow(2).mean()


@pytest.mark.parametrize("cls", CLASSES)
def test_torchs_grad_takes_a_module_and_gives_one(cls: type[nn.Module]) -> None:
    module, x = made(cls)
    before = snapshot(module)
    t, n = mlax.partition(module)
    gradient = torch.func.grad(loss)(t, n, x)
    assert type(gradient) is cls
    found = dict(gradient.named_parameters())
    for name, expected in reference_gradients(module, x).items():
        torch.testing.assert_close(found.pop(name).detach(), expected, rtol=1e-12, atol=1e-12)
    assert not found
    assert [leaf.id for leaf in mlax.leaves(gradient)] == [leaf.id for leaf in mlax.leaves(t)]
    assert_untouched(module, before)
    assert_no_traced_tensor(func.restore_parameters(gradient))
    assert all(isinstance(it, nn.Parameter) and it.is_leaf and it.requires_grad for it in gradient.parameters())


@pytest.mark.parametrize("cls", CLASSES)
def test_torchs_vmap_takes_modules(cls: type[nn.Module]) -> None:
    members = [made(cls)[0], made(cls)[0]]
    x = made(cls)[1]
    with torch.no_grad():
        next(members[1].parameters()).mul_(2)
    ys, after = torch.func.vmap(mlax.apply, in_dims=(0, None))(func.stack(members), x)
    assert torch.vmap(lambda m, x: m(x), in_dims=(0, None))(func.stack(members), x).shape == ys.shape
    for index, (found, member) in enumerate(zip(func.unstack(after), members, strict=True)):
        expected, wanted = mlax.apply(member, x)
        torch.testing.assert_close(ys[index], expected)
        for a, b in zip(found.state_dict().values(), wanted.state_dict().values(), strict=True):
            torch.testing.assert_close(a, b)


@pytest.mark.parametrize("cls", CLASSES)
def test_per_sample_gradients_with_torch_alone(cls: type[nn.Module]) -> None:
    module, x = made(cls)
    t, n = mlax.partition(module)
    each = torch.func.vmap(torch.func.grad(lambda t, n, x: loss(t, n, x[None])), in_dims=(None, None, 0))(t, n, x)
    ours = func.vmap(func.grad(lambda t, n, x: loss(t, n, x[None])), in_dims=(None, None, 0))(t, n, x)
    for a, b in zip(each.parameters(), ours.parameters(), strict=True):
        torch.testing.assert_close(a.detach(), b.detach())


@pytest.mark.parametrize("cls", CLASSES)
def test_tree_functions_map_the_tensors_and_holes_are_no_leaves(cls: type[nn.Module]) -> None:
    module, x = made(cls)
    t, n = mlax.partition(module)
    leaves, structure = pytree.tree_flatten(t)
    assert [id(leaf) for leaf in leaves] == [id(param) for param in t.parameters()]
    back = pytree.tree_unflatten(leaves, structure)
    assert all(a is b for a, b in zip(back.parameters(), t.parameters(), strict=True))
    gradient = torch.func.grad(loss)(t, n, x)
    stepped = pytree.tree_map(lambda p, g: p - 0.1 * g, t, gradient)
    for a, p, g in zip(stepped.parameters(), t.parameters(), gradient.parameters(), strict=True):
        assert torch.equal(a, p - 0.1 * g)
        assert (a.requires_grad, a.is_leaf) == (True, True)
    assert [leaf.id for leaf in mlax.leaves(stepped)] == [leaf.id for leaf in mlax.leaves(t)]
    shapes = pytree.tree_map(lambda p: tuple(p.shape), t)
    assert pytree.tree_leaves(shapes, is_leaf=lambda it: isinstance(it, tuple)) == [
        tuple(p.shape) for p in t.parameters()
    ]
    paths = [pytree.keystr(path) for path, _ in pytree.tree_flatten_with_path(t)[0]]
    assert paths == [f"['{name}']" for name, _ in t.named_parameters()]


def test_structures_are_equal_where_modules_can_be_mapped_together() -> None:
    module, _ = made(Handles)
    t, n = mlax.partition(module)
    structure = pytree.tree_structure(t)
    assert structure == pytree.tree_structure(mlax.partition(Handles())[0])
    assert structure != pytree.tree_structure(n)
    assert structure != pytree.tree_structure(made(Stock)[0])
    other = copy.deepcopy(t)
    other.size = 3
    assert structure != pytree.tree_structure(other)
    with pytest.raises(ValueError, match="mismatch"):
        pytree.tree_map(lambda a, b: a, t, other)
    assert len({structure.context, pytree.tree_structure(mlax.partition(Handles())[0]).context}) == 1


@copies_in_compiled_code
@pytest.mark.parametrize("cls", [Handles, *slow(Stock), *weekly(Stateful)])
def test_compiled_functions_of_torchs_transforms_take_modules(cls: type[nn.Module]) -> None:
    module, x = made(cls)
    t, n = mlax.partition(module)
    compiled = torch.compile(lambda t, n, x: torch.func.grad(loss)(t, n, x), fullgraph=True, backend="eager")
    for a, b in zip(compiled(t, n, x).parameters(), func.grad(loss)(t, n, x).parameters(), strict=True):
        torch.testing.assert_close(a, b.detach())
    ensemble = func.stack([module, module])
    run = torch.compile(
        lambda m, x: torch.func.vmap(lambda m, x: m(x), in_dims=(0, None))(m, x), fullgraph=True, backend="eager"
    )
    torch.testing.assert_close(run(ensemble, x)[1], module(x))


def test_registering_twice_changes_nothing_and_subclasses_are_not_registered() -> None:
    class Sub(Stock):
        pass

    before = pytree.SUPPORTED_NODES[Stock]
    assert func.register_pytree(Stock) is Stock
    assert pytree.SUPPORTED_NODES[Stock] is before
    assert Sub not in pytree.SUPPORTED_NODES
    assert nn.Linear not in pytree.SUPPORTED_NODES
    assert bl.Module not in pytree.SUPPORTED_NODES


@pytest.mark.parametrize("wrong", [dict, nn.Linear(1, 1), torch.Tensor, "Linear", None])
def test_only_classes_of_modules_are_registered(wrong: Any) -> None:
    with pytest.raises(TypeError, match="expected a class of modules"):
        func.register_pytree(wrong)


def test_a_class_that_another_library_registered_is_left_alone() -> None:
    class Theirs(nn.Module):
        pass

    pytree.register_pytree_node(Theirs, lambda module: ([], None), lambda values, context: Theirs())
    with pytest.raises(ArgumentError, match="Theirs is registered"):
        func.register_pytree(Theirs)


def test_modules_that_are_not_registered_are_single_leaves_to_torch() -> None:
    layer = nn.Linear(1, 1)
    assert pytree.tree_leaves({"layer": layer}) == [layer]

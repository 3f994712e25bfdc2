"""Parameters and modules are pytrees by themselves, and a Parameter's data may be any pytree."""

import collections
import copy
import pickle
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
import torch._dynamo.testing
from torch import Tensor, nn
from torch.utils import _pytree as pytree

import burnlike as bl
from burnlike import func, mlax

from ..torch_versions import copies_in_compiled_code
from .samples import Bar, Counter, Foo


class Statistics(NamedTuple):
    mean: Tensor
    rest: Any


class Pair:
    """A class that the program registers, without names of its items."""

    def __init__(self, first: Any, second: Any, label: str) -> None:
        self.first, self.second, self.label = first, second, label


pytree.register_pytree_node(
    Pair, lambda pair: ([pair.first, pair.second], pair.label), lambda items, label: Pair(*items, label)
)


def gradient_of_square(data: Any) -> Any:
    return pytree.tree_map(lambda tensor: 2 * tensor.detach(), data)


def square(param: mlax.Parameter) -> Tensor:
    return torch.stack([tensor.square().sum() for tensor in pytree.tree_leaves(param.data)]).sum()


DATA: dict[str, Any] = {
    "tensor": torch.arange(3.0),
    "list": [torch.arange(3.0), {"k": torch.ones(2)}],
    "namedtuple": Statistics(torch.ones(2), [torch.zeros(2)]),
    "ordered dict": collections.OrderedDict(b=torch.ones(2), a=torch.ones(1)),
    "registered": Pair(torch.ones(2), (torch.ones(1),), "label"),
}


def assert_equal(found: Any, expected: Any) -> None:
    assert pytree.tree_structure(found) == pytree.tree_structure(expected)
    for a, b in zip(pytree.tree_leaves(found), pytree.tree_leaves(expected), strict=True):
        torch.testing.assert_close(a.detach(), b)


@pytest.mark.parametrize("name", DATA)
def test_transforms_of_torch_take_a_parameter(name: str) -> None:
    data = DATA[name]
    module = Foo()
    module.p = mlax.Parameter(True, data, "P")
    for param in (mlax.Parameter(True, data, "P"), module.p):
        for gradient in (torch.func.grad(square)(param), func.grad(square)(param)):
            assert isinstance(gradient, mlax.Parameter)
            assert (gradient.id, gradient.name, gradient.trainable) == (param.id, "P", True)
            assert_equal(gradient.data, gradient_of_square(data))
            assert copy.deepcopy(pytree.tree_map(torch.clone, gradient)).trainable
        value, aux = torch.func.grad(lambda p: (square(p), p), has_aux=True)(param)[1].data, None
        assert_equal(value, data)
        assert aux is None
        mapped = torch.func.vmap(lambda x, p: (x, p), in_dims=(0, None), out_dims=(0, None))
        assert_equal(mapped(torch.ones(2), param)[1].data, data)
    assert_equal(module.p.data, data)


def test_jacobians_of_a_parameter_are_parameters() -> None:
    param = mlax.Parameter(True, torch.arange(3.0))
    found = torch.func.jacrev(lambda p: p.data.square())(param)
    assert torch.equal(found.data, torch.diag(2 * torch.arange(3.0)))
    frozen = mlax.Parameter(False, [torch.ones(2), 3])
    mapped = torch.func.vmap(lambda x, p: x * p.data[0] * p.data[1], in_dims=(0, None))
    assert torch.equal(mapped(torch.ones(4, 2), frozen), torch.full((4, 2), 3.0))
    stacked = mlax.Parameter(True, torch.arange(6.0).reshape(3, 2))
    assert torch.equal(torch.func.vmap(lambda p: p.data.sum())(stacked), torch.tensor([1.0, 5.0, 9.0]))
    compiled = torch.compile(lambda p: torch.func.grad(square)(p), fullgraph=True, backend="eager")
    assert torch.equal(compiled(param).data, 2 * param.data)


def test_trainable_and_name_are_the_metadata_of_a_parameter() -> None:
    param = mlax.Parameter(True, [torch.ones(2), torch.zeros(1)], "A")
    structure = pytree.tree_structure(param)
    assert structure == pytree.tree_structure(mlax.Parameter(True, [torch.ones(2), torch.zeros(1)], "A"))
    for other in (
        mlax.Parameter(False, [torch.ones(2), torch.zeros(1)], "A"),
        mlax.Parameter(True, [torch.ones(2), torch.zeros(1)], "B"),
        mlax.Parameter(True, (torch.ones(2), torch.zeros(1)), "A"),
        mlax.Parameter(True, None, "A"),
    ):
        assert structure != pytree.tree_structure(other)
    doubled = pytree.tree_map(lambda a, b: a + b, param, param)
    assert [it.tolist() for it in doubled.data] == [[2, 2], [0]]
    assert (doubled.id, doubled.name, doubled.trainable, doubled.requires_grad) == (param.id, "A", True, True)
    assert not pytree.tree_map(torch.isnan, param).trainable
    shapes = pytree.tree_map(lambda tensor: tensor.dim(), {"p": param})
    assert pytree.tree_leaves(shapes) == [1, 1]
    assert pytree.tree_map(lambda size: torch.ones(size), shapes)["p"].name == "A"
    paths = [pytree.keystr(path) for path, _ in pytree.tree_flatten_with_path(param)[0]]
    assert paths == [".data[0]", ".data[1]"]
    for empty in (mlax.Parameter(None), mlax.Parameter(True, None)):
        assert pytree.tree_leaves(empty) == []
        assert pytree.tree_map(torch.neg, empty).trainable is empty.trainable


@pytest.mark.parametrize("name", DATA)
def test_data_may_be_any_pytree(name: str, tmp_path: Path) -> None:
    data = DATA[name]
    module = Foo()
    module.p = mlax.Parameter(True, data)
    module.q = mlax.Parameter(False, 1)
    assert len(module.leaves()) == 3
    assert module.p.requires_grad
    t, n = module.partition()
    copies = (t.combine(n), module.map(f=lambda p: p), copy.deepcopy(module), pickle.loads(pickle.dumps(module)))
    for other in (module, *copies):
        assert_equal(other.p.data, data)
    assert {*module.state_dict()} == {"w", "q", *(f"p{key}" for key in KEYS[name])}
    module.p.data = pytree.tree_map(lambda tensor: tensor + 1, module.p.data)
    assert_equal(module.p.data, pytree.tree_map(lambda tensor: tensor + 1, data))
    assert module.p.id == copies[0].p.id
    module.save(tmp_path / "m.safetensors")
    copies[0].load(tmp_path / "m.safetensors")
    assert_equal(copies[0].p.data, module.p.data)
    assert module.static_key() == copies[0].static_key()
    assert "p" in str(module)


KEYS = {
    "tensor": [""],
    "list": [".0", ".1.k"],
    "namedtuple": [".mean", ".rest.0"],
    "ordered dict": [".b", ".a"],
    "registered": [".0", ".1.0"],
}


class WithKey(mlax.Module):
    def __init__(self) -> None:
        self.key = mlax.Parameter(False, mlax.Key(-3))

    def __call__(self, x: Tensor, rng: Any = None, inference_mode: bool = False) -> tuple[Tensor, "WithKey"]:
        mine, self.key.data = self.key.data.split(2)
        return x + mine.rand(x.shape), self


@copies_in_compiled_code
def test_a_key_in_a_parameter_goes_on_from_call_to_call() -> None:
    module, x = WithKey(), torch.zeros(3)
    first, second = mlax.Key(-3).split(2)
    y, after = module.apply(x)
    assert torch.equal(y, first.rand((3,)))
    assert torch.equal(after.apply(x)[0], second.split(2)[0].rand((3,)))
    assert [*module.state_dict()] == ["key.seed"]
    counter = torch._dynamo.testing.CompileCounter()
    step = torch.compile(lambda m, x: m.apply(x), fullgraph=True, backend=counter)
    found = module
    for _ in range(3):
        y, found = step(found, x)
    assert torch.equal(y, second.split(2)[1].split(2)[0].rand((3,)))
    assert counter.frame_count <= 2


def test_modules_are_pytrees_without_being_asked() -> None:
    bar, x = Bar(), torch.randn(2, 3)
    t, n = bar.partition()

    def loss(t: Bar, n: Bar) -> Tensor:
        return t.combine(n)(x).square().sum()

    gradient, expected = torch.func.grad(loss)(t, n), func.grad(loss)(t, n)
    assert type(gradient) is Bar
    for a, b in zip(gradient.leaves(), expected.leaves(), strict=True):
        torch.testing.assert_close(a.data.detach(), b.data)
        assert a.id == b.id
    assert len(pytree.tree_leaves(bar)) == 8
    ys, after = torch.func.vmap(lambda m, x: m.apply(x), in_dims=(None, 0), out_dims=(0, None))(Foo(), torch.ones(3, 4))
    assert (ys.shape, type(after)) == ((3, 2), Foo)
    assert isinstance(torch.func.jacrev(lambda m: m(torch.ones(1, 4)))(Foo()), Foo)


class Adds(mlax.Module):
    """A pair, and a state."""

    def __init__(self) -> None:
        self.w = mlax.Parameter(True, torch.eye(3))
        self.seen = mlax.Parameter(False, torch.zeros(()), kind="state")

    def forward(self, x: Tensor, rng: Any = None, inference_mode: bool = False) -> tuple[Tensor, "Adds"]:
        self.seen.data = self.seen.data + 1
        return x @ self.w.data, self


def test_tools_of_torch_take_modules_that_return_themselves() -> None:
    module, x = Adds(), torch.ones(2, 3)
    exported = torch.export.export(module, (x,))
    y, after = exported.module()(x)
    assert torch.equal(y, x)
    assert type(after) is Adds
    tracked = x.clone().requires_grad_()
    y, _ = torch.utils.checkpoint.checkpoint(module, tracked, use_reentrant=False)
    y.sum().backward()
    assert module.w.data.grad is not None
    for other in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        assert pytree.tree_structure(other) == pytree.tree_structure(module)
    torch.func.vmap(lambda m, x: m(x)[0], in_dims=(None, 0))(module, x)
    copy.deepcopy(module)  # nothing of the transform is left in it


def test_a_class_can_still_be_registered_and_others_stay_as_they_are() -> None:
    assert func.register_pytree(Counter) is Counter
    layer = nn.Linear(1, 1)
    assert pytree.tree_leaves(layer) == [layer]
    assert bl.Module not in pytree.SUPPORTED_NODES

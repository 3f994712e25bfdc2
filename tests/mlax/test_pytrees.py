"""Parameters and modules as pytrees; trainability, device and dtype of views; optimizers on parts of a module."""

import collections
import copy
import gc
import pickle
import weakref
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
import torch._dynamo.testing
from torch import Tensor, nn
from torch.utils import _pytree as pytree

import burnlike as bl
from burnlike import ParamGroup, func, mlax
from burnlike.errors import DuplicateParamIdError
from burnlike.module import Param, freeze, params
from burnlike.optim import AdamWConfig, GradientsParams, OptimizerAdaptor

from ..torch_versions import copies_in_compiled_code
from .samples import FROZEN, PATHS, TRAINABLE, Bar, Counter, Foo, paths, tensors, values


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


def test_57_an_optimizer_on_a_part_updates_what_the_whole_computes_with() -> None:
    m, x = Bar(), torch.randn(5, 3)
    t, n = m.partition()
    optimizer = torch.optim.SGD(t.parameters(), 0.1)
    before = values(m)
    whole = t.combine(n)
    whole(x).square().sum().backward()
    gradients = {name: it.grad for name, it in tensors(whole).items()}
    optimizer.step()
    for module in (m, t, n, whole):
        for name, tensor in tensors(module).items():
            expected = before[name] - 0.1 * gradients[name] if name in TRAINABLE else before[name]
            torch.testing.assert_close(tensor.detach(), expected)


def test_58_views_do_not_change_the_original() -> None:
    m = Bar()
    objects = tensors(m)
    t, n = m.partition()
    view = t.combine(n).to(torch.float64)
    assert view.a.data.dtype == view.b.data.dtype == torch.float64
    assert m.a.data.dtype == torch.float32
    assert view.a.trainable is True
    view = t.combine(n)
    assert view.requires_grad_(False) is view
    assert not any(leaf.trainable or leaf.requires_grad for leaf in view.leaves())
    view = t.combine(n).freeze(ParamGroup.from_path("a"))
    assert paths(view.filter(mlax.is_trainable)) == ["f.w", "g.0.w"]
    assert paths(t.combine(n).unfreeze().filter(mlax.is_trainable)) == ["a", "b", "f.w", "g.0.w", "g.1"]
    assert paths(t.combine(n).no_grad().filter(mlax.is_trainable)) == []
    assert paths(m.filter(mlax.is_trainable)) == TRAINABLE
    assert m.a.trainable is True
    assert m.a.data.requires_grad
    assert all(it is objects[name] for name, it in tensors(m).items())
    assert torch.equal(freeze(m.map(lambda p: p)).a.data, m.a.data)


def test_58_moving_keeps_ties_and_what_does_not_change() -> None:
    class Tied(mlax.Module):
        def __init__(self) -> None:
            self.f, self.g = Foo(2, 2), Foo(2, 2)
            self.g.w = self.f.w
            self.rnn = torch.nn.RNN(2, 2)

    m = Tied()
    optimizer = torch.optim.SGD(m.parameters(), 1.0)
    assert m.to("cpu") is m
    assert {id(it) for it in optimizer.param_groups[0]["params"]} == {id(it) for it in m.parameters()}
    m.double()
    assert m.f.w.data is m.g.w.data
    assert m.f.w.data.dtype == torch.float64
    assert m.rnn(torch.ones(1, 1, 2, dtype=torch.float64))[0].dtype == torch.float64
    m.freeze()
    assert m.f.w.data is m.g.w.data
    assert m.to("meta").f.w.data.is_meta


def test_58_views_with_parameters_without_values_do_not_change_the_original() -> None:
    class Lazy(mlax.Module):
        def __init__(self) -> None:
            self.w = Param.uninitialized(lambda device: torch.ones(2, device=device), (2,))
            self.v = self.w
            self.linear = torch.nn.LazyLinear(2)

    m = Lazy()
    t, n = m.partition()
    view = t.combine(n).to(torch.float64)
    assert view.w.data is view.v.data
    assert view.linear(torch.ones(1, 3, dtype=torch.float64)).dtype == torch.float64
    assert torch.equal(view.w.data * 2, torch.full((2,), 2.0, dtype=torch.float64))
    assert (m.w.data.dtype, m.linear.weight.dtype) == (torch.float32, torch.float32)
    before = m.w.data
    assert m.to("cpu").w.data is before
    frozen = m.filter(lambda p: p.path == "w").freeze()
    assert (frozen.w.trainable, m.w.trainable) == (False, True)
    assert frozen.w.data is frozen.v.data


def test_59_training_again_restores_what_was_meant() -> None:
    m = Bar()
    view = m.valid()
    assert not any(leaf.requires_grad for leaf in view.leaves())
    assert [leaf.path for leaf in view.leaves() if leaf.trainable] == TRAINABLE
    assert view.a.data.data_ptr() == m.a.data.data_ptr()
    view.train()
    assert [leaf.path for leaf in view.leaves() if leaf.requires_grad] == TRAINABLE
    off = m.map(lambda p: p).no_grad().valid()
    off.train()
    assert not any(leaf.requires_grad or leaf.trainable for leaf in off.leaves())
    t, n = m.valid().partition()
    assert paths(t) == TRAINABLE
    assert [leaf.path for leaf in t.combine(n).train().leaves() if leaf.requires_grad] == TRAINABLE
    lazy = mlax.ModuleSeq([mlax.Parameter(True, None)])
    assert lazy.valid().train()[0].trainable is True


def run(optimizer: OptimizerAdaptor[Any], m: Bar, seed: int, part: Any = None) -> None:
    torch.manual_seed(seed)
    m(torch.randn(5, 3)).square().sum().backward()
    target = m if part is None else part
    optimizer.step(0.1, target, GradientsParams.from_module(target))


def test_60_a_step_on_a_part_is_a_step_on_the_whole() -> None:
    one, two, three = Bar(), Bar(), Bar()
    for other in (two, three):
        other.load_state_dict(one.state_dict())
    optimizers = [AdamWConfig().init() for _ in range(3)]
    run(optimizers[0], one, 1)
    run(optimizers[1], two, 1, two.partition()[0])
    t, n = three.partition()
    run(optimizers[2], three, 1, t.combine(n))
    run(optimizers[0], one, 2)
    run(optimizers[1], two, 2)
    run(optimizers[2], three, 2, three.partition()[0])
    for other in (two, three):
        assert all(torch.equal(it, values(one)[name]) for name, it in values(other).items())
    with pytest.warns(UserWarning, match="All are frozen"):
        run(optimizers[1], two, 3, two.partition()[1])
    assert all(torch.equal(it, values(one)[name]) for name, it in values(two).items())


def test_60_momentum_follows_the_id_through_a_sequence_and_a_record() -> None:
    class Line(mlax.Module):
        def __init__(self) -> None:
            self.layers = mlax.ModuleSeq([Foo(2, 2), Foo(2, 2), mlax.Parameter(True, torch.ones(2))])

    one = Line()
    two = one.map(lambda p: p)
    optimizers = [AdamWConfig().init(), AdamWConfig().init()]

    def step(m: Line, optimizer: Any, loss: torch.Tensor) -> None:
        loss.backward()
        optimizer.step(0.1, m, GradientsParams.from_module(m))

    for m, optimizer in zip((one, two), optimizers, strict=True):
        step(m, optimizer, m.layers[1].w.data.square().sum() + (3 * m.layers[2].data).sum())
    del two.layers[0]
    optimizers[1] = AdamWConfig().init().load_record(optimizers[1].to_record())
    t, n = two.partition()
    two = t.combine(n)
    step(one, optimizers[0], one.layers[1].w.data.sum() + one.layers[2].data.sum())
    step(two, optimizers[1], two.layers[0].w.data.sum() + two.layers[1].data.sum())
    assert torch.equal(one.layers[1].w.data, two.layers[0].w.data)
    assert torch.equal(one.layers[2].data, two.layers[1].data)


def test_61_whole_numbers_and_bools_cannot_be_trainable() -> None:
    for data in (1, True, torch.zeros(2, dtype=torch.int8), [1.0, 2]):
        with pytest.raises(TypeError, match="can't be trainable"):
            mlax.Parameter(True, data)
    with pytest.raises(TypeError, match="a state can't be trainable"):
        mlax.Parameter(True, 1.0, kind="state")
    param = mlax.Parameter(True, 1.0)
    with pytest.raises(TypeError, match="can't be trainable"):
        param.data = 3
    with pytest.raises(TypeError, match="expected trainable to be True, False or None, got 1"):
        mlax.Parameter(1, 1.0)  # pyright: ignore[reportArgumentType]


def test_62_two_copies_with_one_id_are_refused() -> None:
    class Twice(mlax.Module):
        def __init__(self, new_ids: bool) -> None:
            self.f = Bar()
            self.g = self.f.clone(new_ids=new_ids)

    m = Twice(new_ids=False)
    for call in (m.leaves, m.params, m.partition, lambda: m.map(lambda p: p)):
        with pytest.raises(DuplicateParamIdError, match=r"'f\.a' and 'g\.a'"):
            call()
    m = Twice(new_ids=True)
    assert paths(m) == [f"{name}.{path}" for name in "fg" for path in PATHS]
    assert len({leaf.id for leaf in m.leaves()}) == 12
    assert len({param.id for param in params(m)}) == 16
    assert paths(m.partition()[1]) == [f"{name}.{path}" for name in "fg" for path in FROZEN]


def test_assigning_a_tensor_to_a_parameter_is_refused() -> None:
    m = Bar()
    for name, wrong in (("a", torch.zeros(3, 4)), ("c", [4, 5, 6]), ("b", 3.0)):
        with pytest.raises(TypeError, match=rf"self\.{name}\.data = "):
            setattr(m, name, wrong)
    assert paths(m) == PATHS
    m.a = torch.nn.Parameter(torch.zeros(3, 4))
    assert m.a.data.sum() == 0
    m.load_state_dict({name: it.clone() for name, it in Bar().state_dict().items()}, assign=True)
    assert m.a.trainable is True
    m.b = None
    assert m.b is None
    assert "b" not in paths(m)


def test_handles_on_one_attribute_are_equal() -> None:
    m, other = Bar(), Bar()
    assert m.a == m.a
    assert hash(m.a) == hash(m.a)
    assert m.a != m.b
    assert m.a != other.a
    param = mlax.Parameter(True, torch.ones(2))
    m.extra = param
    param.data = torch.zeros(2)
    assert m.extra.data.tolist() == [0, 0]
    assert param == m.extra
    assert m.extra.id == param.id
    m.extra.data = torch.ones(2)
    assert param.data.tolist() == [1, 1]
    assert param.trainable is True
    assert m.extra.data.is_leaf


def test_views_are_freed_without_the_cycle_collector() -> None:
    m = Bar()
    gc.collect()
    gc.disable()
    try:
        t, n = m.partition()
        whole = t.combine(n)
        assert len([leaf.data for leaf in whole.leaves()]) + len(whole.c.data) == 9
        references = [weakref.ref(it) for it in (t, n, whole)]
        del t, n, whole
        assert [reference() for reference in references] == [None] * 3
    finally:
        gc.enable()

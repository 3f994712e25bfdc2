"""Trainability, device and dtype of views; optimizers on parts of a module."""

import gc
import weakref
from typing import Any

import pytest
import torch

from burnlike import ParamGroup, mlax
from burnlike.errors import DuplicateParamIdError
from burnlike.module import Param, freeze, params
from burnlike.optim import AdamWConfig, GradientsParams, OptimizerAdaptor

from .samples import FROZEN, PATHS, TRAINABLE, Bar, Foo, paths, tensors, values


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

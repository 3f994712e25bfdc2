"""A handle takes over operators, indices and attributes of its tensor."""

import operator
from typing import Any

import numpy as np
import pytest
import torch

from burnlike import mlax
from burnlike.errors import EmptyParamError

from .samples import Bar, Foo

BINARY = [operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod, operator.pow]
ORDER = [operator.lt, operator.le, operator.gt, operator.ge]
BITS = [operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift]


@pytest.mark.parametrize("function", [*BINARY, *ORDER])
@pytest.mark.parametrize("other", [2, 1.5, torch.full((3, 4), 1.5)], ids=["int", "float", "tensor"])
def test_operators_are_those_of_the_tensor(function: Any, other: Any) -> None:
    m = Bar()
    for handle in (m.a, m.b):
        tensor = handle.data
        torch.testing.assert_close(function(handle, other), function(tensor, other), equal_nan=True)
        torch.testing.assert_close(function(other, handle), function(other, tensor), equal_nan=True)
        torch.testing.assert_close(function(handle, m.a), function(tensor, m.a.data), equal_nan=True)


@pytest.mark.parametrize("function", BITS)
def test_operators_of_whole_numbers(function: Any) -> None:
    m = Foo()
    m.n = mlax.Parameter(False, torch.arange(4))
    assert torch.equal(function(m.n, 2), function(m.n.data, 2))
    assert torch.equal(function(torch.tensor(2), m.n), function(torch.tensor(2), m.n.data))
    assert torch.equal(~m.n, ~m.n.data)
    assert [10, 11, 12, 13][m.n[2]] == 12


def test_indices_and_attributes_are_those_of_the_tensor() -> None:
    m = Bar()
    a = m.a.data
    assert m.a.shape == (3, 4)
    assert (m.a.dtype, m.a.device, m.a.ndim, m.a.size(0)) == (a.dtype, a.device, 2, 3)
    assert torch.equal(m.a[0], a[0])
    assert torch.equal(m.a[:, 1:2], a[:, 1:2])
    assert torch.equal(m.a.T @ m.a, a.T @ a)
    assert torch.equal(m.a.sum(0), a.sum(0))
    assert torch.equal(-m.a + abs(m.a), -a + a.abs())
    assert (len(m.a), len([*m.a])) == (3, 3)
    assert float(m.b[0, 0]) == 0.5
    assert np.asarray(m.b).tolist() == m.b.data.tolist()
    assert m.c[1] == 2
    assert [int(it) for it in m.c] == [1, 2, 3]
    (2 * m.a).sum().backward()
    assert torch.equal(m.a.grad, torch.full((3, 4), 2.0))


def test_equality_is_that_of_handles() -> None:
    m = Bar()
    assert m.a == m.a
    assert m.a != m.b
    assert len({m.a, m.a, m.b}) == 2


def test_what_a_tensor_does_not_have_a_handle_has_not() -> None:
    m = Bar()
    assert not hasattr(m.a, "no_such_thing")
    assert not hasattr(m.partition()[1].a, "no_such_thing")
    with pytest.raises(AttributeError, match="Parameter has no attribute 'into_items'"):
        _ = m.a.into_items
    with pytest.raises(TypeError, match="'c' of Bar holds several tensors"):
        _ = m.c * 2


def test_a_hole_has_none_of_it() -> None:
    hole = Bar().partition()[1].a
    for use in (
        lambda: hole * 2,
        lambda: 2 - hole,
        lambda: torch.ones(3, 1) * hole,
        lambda: hole[0],
        lambda: hole.shape,
        lambda: hole.sum(),
        lambda: len(hole),
        lambda: [*hole],
        lambda: float(hole),
        lambda: np.asarray(hole),
        lambda: -hole,
        lambda: hole > 1,
    ):
        with pytest.raises(EmptyParamError, match="'a' of Bar"):
            use()


def test_operators_are_compiled_whole() -> None:
    def compute(m: Bar, x: torch.Tensor) -> torch.Tensor:
        return (2 * m.a + x * m.b[0] - m.b).sum(0) / m.a.shape[0] @ m.a[0] * len(m.c)

    m, x = Bar(), torch.ones(3, 4)
    expected = compute(m, x)
    torch.testing.assert_close(torch.compile(compute, fullgraph=True, backend="eager")(m, x), expected)


def test_names_of_arguments_are_those_of_the_page() -> None:
    seq = mlax.ModuleSeq(submodules=[Foo(2, 2), mlax.Parameter(True, torch.ones(2))])
    assert len(seq) == 2
    m = Bar()
    assert m.map(f=lambda p: p).a.data.shape == (3, 4)
    trainables, others = m.partition(f=mlax.is_trainable)
    assert [leaf.path for leaf in m.filter(f=mlax.is_trainable).leaves()] == [leaf.path for leaf in trainables.leaves()]
    assert mlax.map(m, f=lambda p: p).combine(others).a.data.shape == (3, 4)

"""Sums, means, products and running forms."""

from typing import Any

import pytest
import torch

from burnlike import Autodiff, Cpu, Tensor
from burnlike.errors import TensorTypeError, TensorValueError
from burnlike.tensor import linalg

from ..made import typed

FLOAT = torch.tensor([[1.5, -2.0, 3.0], [0.5, 4.0, -1.0]], dtype=torch.float64)
INT = torch.tensor([[7, -2, 3], [1, 4, -8]], dtype=torch.int32)
CUBE = torch.arange(24, dtype=torch.float64).reshape(2, 3, 4)


@pytest.mark.parametrize("x", [FLOAT, INT, FLOAT[0], INT[0], CUBE])
def test_full_reductions_have_one_element_and_keep_the_dtype(x: torch.Tensor) -> None:
    total, product = typed(x).sum(), typed(x).prod()
    assert torch.equal(total.inner, x.sum().to(x.dtype).reshape(1))
    assert torch.equal(product.inner, x.prod().to(x.dtype).reshape(1))
    assert total.rank() == product.rank() == 1


def test_a_reduced_dimension_stays_with_size_1() -> None:
    for dim in (0, 1, 2, -1, -3):
        assert torch.equal(typed(CUBE).sum_dim(dim).inner, CUBE.sum(dim, keepdim=True))
        assert torch.equal(typed(CUBE).mean_dim(dim).inner, CUBE.mean(dim, keepdim=True))
        assert torch.equal(typed(CUBE).prod_dim(dim).inner, CUBE.prod(dim, keepdim=True))


def test_several_dimensions_are_reduced_at_once() -> None:
    assert torch.equal(typed(CUBE).sum_dims([0, -1]).inner, CUBE.sum((0, 2), keepdim=True))
    assert torch.equal(typed(CUBE).mean_dims((1, 2)).inner, CUBE.mean((1, 2), keepdim=True))
    assert torch.equal(typed(CUBE).prod_dims([1, 0]).inner, CUBE.prod(1, keepdim=True).prod(0, keepdim=True))


@pytest.mark.parametrize("name", ["sum_dims", "mean_dims", "prod_dims", "sum_dims_squeeze"])
def test_no_dimension_given_is_none_reduced(name: str) -> None:
    assert torch.equal(getattr(typed(CUBE), name)([]).inner, CUBE)


@pytest.mark.parametrize("name", ["sum_dims", "mean_dims", "prod_dims"])
def test_a_dimension_named_twice_is_reduced_once(name: str) -> None:
    assert torch.equal(getattr(typed(INT), name)([1, -1]).inner, getattr(typed(INT), name)([1]).inner)


def test_squeezed_dimensions_are_dropped() -> None:
    one, two = typed(CUBE).sum_dims_squeeze((1,)), typed(CUBE).sum_dims_squeeze((0, -1))
    assert torch.equal(one.inner, CUBE.sum(1))
    assert torch.equal(two.inner, CUBE.sum((0, 2)))
    assert (one.rank(), two.rank()) == (2, 1)


def test_integer_means_are_whole_parts() -> None:
    assert typed(INT).mean().inner.tolist() == [0]  # 5 / 6
    assert typed(INT).mean_dim(1).inner.tolist() == [[2], [-1]]  # 8 / 3, -3 / 3
    assert typed(INT).mean_dim(0).inner.tolist() == [[4, 1, -2]]  # 8, 2, -5, halved: toward zero
    assert typed(INT).mean_dims([0, 1]).inner.dtype is torch.int32


def test_integer_means_are_whole_after_each_dimension() -> None:
    x = typed(torch.tensor([[1, 1], [0, 2]]))
    assert x.mean_dims([0, 1]).inner.tolist() == [[0]]  # (0, 1), then 1 / 2
    assert x.mean_dims([1, 0]).inner.tolist() == [[1]]  # (1, 1), then 2 / 2


def test_an_integer_mean_is_right_where_the_sum_leaves_the_dtype() -> None:
    assert typed(torch.tensor([100, 100, 100], dtype=torch.int8)).mean().inner.tolist() == [100]


def test_running_forms_follow_torch() -> None:
    for x in (FLOAT, INT):
        for dim in (0, 1, -1):
            assert torch.equal(typed(x).cumsum(dim).inner, x.cumsum(dim).to(x.dtype))
            assert torch.equal(typed(x).cumprod(dim).inner, x.cumprod(dim).to(x.dtype))
            assert torch.equal(typed(x).cummin(dim).inner, x.cummin(dim).values)
            assert torch.equal(typed(x).cummax(dim).inner, x.cummax(dim).values)


def test_nothing_sums_to_0_and_multiplies_to_1() -> None:
    empty = torch.zeros(3, 0)
    assert typed(empty).sum().inner.tolist() == [0.0]
    assert typed(empty).prod().inner.tolist() == [1.0]
    assert typed(empty).sum_dim(1).inner.tolist() == [[0.0]] * 3
    assert typed(empty).mean().inner.isnan().tolist() == [True]


@pytest.mark.parametrize(
    "call", [("max",), ("min",), ("max_abs",), ("max_dim", 1), ("argmin", 1), ("min_dims", [0, 1])]
)
@pytest.mark.parametrize("tracked", [False, True])
def test_no_elements_have_no_extreme(call: tuple[Any, ...], tracked: bool) -> None:
    with pytest.raises(TensorValueError, match=r"of at least one element, and here is none\n.*shape \[3, 0\]"):
        getattr(typed(torch.zeros(3, 0, requires_grad=tracked)), call[0])(*call[1:])


@pytest.mark.parametrize("call", [("mean",), ("mean_dim", 1), ("mean_dims", [0, 1])])
def test_no_integers_have_no_mean(call: tuple[Any, ...]) -> None:
    with pytest.raises(TensorValueError, match="no integers have no mean"):
        getattr(typed(torch.zeros(3, 0, dtype=torch.int32)), call[0])(*call[1:])


@pytest.mark.parametrize(
    "call",
    [
        *(
            (name, dim)
            for name in ("sum_dim", "mean_dim", "prod_dim", "cumsum", "cumprod", "cummin")
            for dim in (2, -3)
        ),
        *((name, [0, 2]) for name in ("sum_dims", "mean_dims", "prod_dims", "sum_dims_squeeze")),
    ],
)
def test_dimensions_out_of_range_are_refused(call: tuple[str, Any]) -> None:
    with pytest.raises(TensorValueError, match=r"dimension -?\d is outside of -2\.\.1"):
        getattr(typed(FLOAT), call[0])(call[1])


def test_squeezing_keeps_one_dimension() -> None:
    with pytest.raises(TensorValueError, match="keep one"):
        typed(FLOAT).sum_dims_squeeze((0, 1))


def test_a_dimension_named_twice_counts_once_everywhere() -> None:
    for dims in ((0, 0), (0, -2), (-2, 0, -2)):
        assert torch.equal(typed(FLOAT).sum_dims_squeeze(dims).inner, FLOAT.sum(0))
        for name in ("sum", "mean", "prod", "max", "min", "max_abs"):
            twice, once = (getattr(typed(FLOAT), f"{name}_dims")(it).inner for it in (dims, [0]))
            assert torch.equal(twice, once)
        for name in ("l0", "l1", "l2", "max_abs", "min_abs"):
            norm = getattr(linalg, f"{name}_norm_dims")
            assert torch.equal(norm(typed(FLOAT), dims).inner, norm(typed(FLOAT), [0]).inner)
    ones = typed(torch.ones(1, 2, 1))
    assert ones.squeeze_dims([0, 0]).dims() == (2, 1)
    assert ones.squeeze_dims([0, -3, 2]).dims() == (2,)


def test_one_dimension_is_no_sequence() -> None:
    with pytest.raises(TensorTypeError, match=r"use \[1\]"):
        typed(FLOAT).sum_dims(1)


@pytest.mark.parametrize("name", ["sum", "mean", "prod"])
def test_bool_has_no_sums(name: str) -> None:
    with pytest.raises(TensorTypeError, match="not defined for Bool"):
        getattr(typed(FLOAT > 0), name)()


def test_a_product_with_a_zero_has_a_gradient_at_the_zero() -> None:
    x = Tensor(torch.tensor([2.0, 0.0, 3.0, 4.0], requires_grad=True), Autodiff(Cpu()))
    gradient = torch.autograd.grad(x.prod().inner, x.inner)[0]
    assert gradient.tolist() == [0.0, 24.0, 0.0, 0.0]


@pytest.mark.parametrize("name", ["cummax", "cummin"])
def test_the_last_of_equal_running_extremes_has_the_gradient(name: str) -> None:
    sign = 1.0 if name == "cummax" else -1.0
    x = Tensor((sign * torch.tensor([1.0, 3.0, 3.0, 2.0])).requires_grad_(), Autodiff(Cpu()))
    gradient = torch.autograd.grad(getattr(x, name)(0).sum().inner, x.inner)[0]
    assert gradient.tolist() == [1.0, 1.0, 2.0, 0.0]


def test_reductions_order_and_statistics_compile_whole() -> None:
    def program(x: Any) -> Any:
        first = x.sum_dim(0).add(x.mean_dims([0, 1])).add(x.max_dim(0)).add(x.sort(1).cumsum(1).median(0))
        return first, x.topk(2, 1), x.max(), x.argmax(1), x.argtopk(2, 1), x.var(1)

    for backend, inner in ((Cpu(), FLOAT), (Autodiff(Cpu()), FLOAT.clone().requires_grad_())):
        x = Tensor(inner, backend)
        for eager, compiled in zip(program(x), torch.compile(program, fullgraph=True, backend="eager")(x), strict=True):
            assert torch.equal(eager.inner, compiled.inner)

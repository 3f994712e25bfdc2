"""Extremes, sorting, and the k greatest."""

from typing import Any

import pytest
import torch

from burnlike import Autodiff, Cpu, Tensor
from burnlike.errors import TensorTypeError, TensorValueError

from ..made import typed

NAN = float("nan")
FLOAT = torch.tensor([[1.5, -2.0, 3.0], [0.5, 4.0, -9.0]])
INT = torch.tensor([[7, -2, 3], [1, 4, -8]], dtype=torch.int16)
EXTREMES = ["max", "min", "max_abs"]


def reference(x: torch.Tensor, name: str) -> torch.Tensor:
    return x.abs() if name == "max_abs" else x


def amax(x: torch.Tensor, name: str, dims: Any) -> torch.Tensor:
    return x.amin(dims, keepdim=True) if name == "min" else reference(x, name).amax(dims, keepdim=True)


@pytest.mark.parametrize("x", [FLOAT, INT])
@pytest.mark.parametrize("name", EXTREMES)
def test_extremes_follow_torch(name: str, x: torch.Tensor) -> None:
    assert torch.equal(getattr(typed(x), name)().inner, amax(x, name, (0, 1)).reshape(1))
    for dim in (0, 1, -2):
        assert torch.equal(getattr(typed(x), f"{name}_dim")(dim).inner, amax(x, name, dim))
    for dims in ([0], [0, 1], [-1, 0], [1, -1]):
        assert torch.equal(getattr(typed(x), f"{name}_dims")(dims).inner, amax(x, name, tuple({it % 2 for it in dims})))
    assert torch.equal(getattr(typed(x), f"{name}_dims")([]).inner, reference(x, name))


@pytest.mark.parametrize("name", EXTREMES)
def test_nan_wins(name: str) -> None:
    x = torch.tensor([1.0, NAN, 5.0, NAN])
    for backend, inner in ((Cpu(), x), (Autodiff(Cpu()), x.clone().requires_grad_())):
        assert getattr(typed(inner, backend), name)().inner.isnan().tolist() == [True]
        assert getattr(typed(inner, backend), f"{name}_dim")(0).inner.isnan().tolist() == [True]
    assert typed(x).argmax(0).inner.tolist() == typed(x).argmin(0).inner.tolist() == [1]


@pytest.mark.parametrize("kind", ["max", "min"])
@pytest.mark.parametrize("x", [FLOAT, INT])
def test_indices_keep_the_dimension_and_name_the_first(x: torch.Tensor, kind: str) -> None:
    values, indices = getattr(typed(x), f"{kind}_dim_with_indices")(1)
    wanted = getattr(torch, kind)(x, 1, keepdim=True)
    assert torch.equal(values.inner, wanted.values)
    assert torch.equal(indices.inner, wanted.indices.to(indices.dtype))
    assert torch.equal(getattr(typed(x), f"arg{kind}")(-1).inner, wanted.indices.to(indices.dtype))
    ties = torch.full_like(x, 3)
    assert not getattr(typed(ties), f"arg{kind}")(1).inner.any()


ONE = [("argmax", 0), ("argmin", 0), ("argsort", 0), ("argsort_descending", 0), ("argtopk", 640, 0)]
TWO = [
    *[("max_dim_with_indices", 0), ("min_dim_with_indices", 0), ("topk_with_indices", 640, 0)],
    *[("sort_with_indices", 0), ("sort_descending_with_indices", 0)],
]


@pytest.mark.parametrize("call", [*ONE, *TWO])
@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int32, torch.float32])
def test_indices_have_the_backend_s_dtype_whatever_that_of_the_elements(
    call: tuple[Any, ...], dtype: torch.dtype
) -> None:
    row = torch.zeros(640, dtype=dtype)
    row[600], row[601] = 100, -100 if dtype.is_signed else 0
    for backend in (Cpu(), Cpu(int=torch.int32), Cpu(int=torch.int16)):
        found = getattr(typed(row, backend), call[0])(*call[1:])
        values, indices = found if isinstance(found, tuple) else (None, found)
        assert indices.dtype is backend.int_dtype
        taken = row[indices.inner.long()]
        wanted = getattr(typed(row.double(), Cpu()), call[0])(*call[1:])
        assert torch.equal(taken.double(), row.double()[(wanted[1] if values is not None else wanted).inner])
        assert values is None or torch.equal(taken, values.inner)


@pytest.mark.parametrize("call", [*ONE, *TWO])
def test_an_int_type_that_cannot_hold_the_indices_is_refused(call: tuple[Any, ...]) -> None:
    name, *arguments = call
    short = [2 if it == 640 else it for it in arguments]
    getattr(typed(torch.zeros(128), Cpu(int=torch.int8)), name)(*short)
    with pytest.raises(TensorValueError, match=r"torch\.int8.* 129 elements"):
        getattr(typed(torch.zeros(129), Cpu(int=torch.int8)), name)(*short)
    with pytest.raises(TensorValueError, match=r"torch\.int8.* 300 elements"):
        typed(torch.ones(300, dtype=torch.bool), Cpu(int=torch.int8)).nonzero()


@pytest.mark.parametrize("call", [("max",), ("min_dim", 0), ("max_dims", [0]), ("max_abs",), ("max_abs_dims", [0, 1])])
def test_one_of_equal_extremes_has_the_gradient(call: tuple[Any, ...]) -> None:
    x = Tensor(torch.tensor([[2.0], [2.0], [2.0]], requires_grad=True), Autodiff(Cpu()))
    out = getattr(x, call[0])(*call[1:])
    assert torch.autograd.grad(out.sum().inner, x.inner)[0].tolist() == [[1.0], [0.0], [0.0]]


@pytest.mark.parametrize(
    "call",
    [
        *[("max",), ("min",), ("max_abs",), ("argmax", 1), ("argmin", 1), ("max_dim", 1), ("min_dims", [1])],
        *[("max_dim_with_indices", -1), ("min_dim_with_indices", 1), ("max_abs_dim", 1)],
    ],
)
def test_nothing_has_no_extreme(call: tuple[Any, ...]) -> None:
    with pytest.raises(TensorValueError, match="Operands: shape"):
        getattr(typed(torch.zeros(3, 0)), call[0])(*call[1:])


def test_sorting_puts_nan_last_and_descending_first() -> None:
    x = torch.tensor([2.0, NAN, -1.0, 7.0])
    assert typed(x).sort(0).inner.tolist()[:3] == [-1.0, 2.0, 7.0]
    assert typed(x).sort_descending(-1).inner.tolist()[1:] == [7.0, 2.0, -1.0]
    assert typed(x).argsort(0).inner.tolist() == [2, 0, 3, 1]
    assert typed(x).argsort_descending(0).inner.tolist() == [1, 3, 0, 2]


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_sorting_follows_torch(dim: int) -> None:
    for x in (FLOAT, INT):
        for suffix, descending in (("", False), ("_descending", True)):
            wanted = torch.sort(x, dim, descending)
            values, indices = getattr(typed(x), f"sort{suffix}_with_indices")(dim)
            assert torch.equal(values.inner, wanted.values)
            assert torch.equal(indices.inner.long(), wanted.indices)
            assert torch.equal(getattr(typed(x), f"sort{suffix}")(dim).inner, wanted.values)
            assert torch.equal(getattr(typed(x), f"argsort{suffix}")(dim).inner.long(), wanted.indices)


@pytest.mark.parametrize("k", [0, 1, 3])
def test_the_k_greatest_descend(k: int) -> None:
    for x in (FLOAT, INT):
        wanted = torch.topk(x, k, 1)
        values, indices = typed(x).topk_with_indices(k, -1)
        assert torch.equal(values.inner, wanted.values)
        assert torch.equal(indices.inner.long(), wanted.indices)
        assert torch.equal(typed(x).topk(k, 1).inner, wanted.values)
        assert torch.equal(typed(x).argtopk(k, 1).inner.long(), wanted.indices)


@pytest.mark.parametrize("size", [7, 1000])
@pytest.mark.parametrize("nan_share", [0.0, 0.3])
def test_argtopk_takes_the_first_of_equal_elements(size: int, nan_share: float) -> None:
    generator = torch.Generator().manual_seed(1)
    x = torch.randint(-2, 3, (3, size, 2), generator=generator).float()
    x[torch.rand(x.shape, generator=generator) < nan_share] = NAN
    for k in (1, 2, size // 2, size):
        wanted = torch.sort(x, dim=1, descending=True, stable=True).indices[:, :k]
        assert torch.equal(typed(x).argtopk(k, 1).inner, wanted)


def test_topk_sends_its_gradient_to_what_it_took() -> None:
    x = Tensor(torch.tensor([1.0, 5.0, 3.0], requires_grad=True), Autodiff(Cpu()))
    weights = torch.tensor([10.0, 1.0])
    gradient = torch.autograd.grad((x.topk(2, 0).inner * weights).sum(), x.inner)[0]
    assert gradient.tolist() == [0.0, 10.0, 1.0]


@pytest.mark.parametrize("name", ["topk", "topk_with_indices", "argtopk"])
def test_k_is_at_most_the_size(name: str) -> None:
    for k in (4, -1):
        with pytest.raises(TensorValueError, match="expected k from 0 to 3"):
            getattr(typed(FLOAT), name)(k, 1)
    with pytest.raises(TensorTypeError, match="expected k as an int"):
        getattr(typed(FLOAT), name)(1.0, 1)


@pytest.mark.parametrize(
    "call",
    [
        (name, dim)
        for dim in (2, -3)
        for name in ("sort", "sort_with_indices", "argsort", "argmax", "max_dim", "min_dim")
    ]
    + [("topk", 1, 2), ("argtopk", 1, -3), ("max_dims", [2]), ("max_abs_dims", [0, 2]), ("max_dim_with_indices", 2)],
)
def test_dimensions_out_of_range_are_refused(call: tuple[Any, ...]) -> None:
    with pytest.raises(TensorValueError, match=r"is outside of -2\.\.1"):
        getattr(typed(FLOAT), call[0])(*call[1:])


def test_bool_has_no_order() -> None:
    with pytest.raises(TensorTypeError, match="not defined for Bool"):
        typed(FLOAT > 0).max()

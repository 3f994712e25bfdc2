"""Arithmetic and its operators: no promotion, equal ranks, Burn's values where torch has others."""

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from burnlike import Autodiff, Cpu, Cuda, Int, Tensor
from burnlike.errors import TensorTypeError, TensorValueError
from burnlike.tensor import linalg

from ..made import bools, floats, ints

CPU = Cpu()
INT_DTYPES = [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8]


BINARY = ["add", "sub", "mul", "div", "remainder", "powi"]


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize("dtype", INT_DTYPES)
def test_int_results_keep_their_dtype(name: str, dtype: torch.dtype) -> None:
    x = ints([1, 2, 3], dtype)
    assert getattr(x, name)(x).dtype is dtype
    assert getattr(x, name)(2).dtype is dtype
    assert getattr(x, f"{name}_scalar")(2).dtype is dtype
    assert x.square().dtype is x.abs().dtype is x.sign().dtype is dtype


@pytest.mark.parametrize("name", BINARY)
def test_operands_broadcast_in_both_directions(name: str) -> None:
    row, column = floats([[1.0, 2.0, 3.0]]), floats([[4.0], [5.0]])
    expected = {"powi": torch.pow}.get(name) or getattr(torch, name)
    assert torch.equal(getattr(row, name)(column).inner, expected(row.inner, column.inner))


@pytest.mark.parametrize("name", BINARY)
def test_sizes_that_differ_are_refused_with_both_shapes(name: str) -> None:
    with pytest.raises(TensorValueError, match=rf"'{name.capitalize()}'[\s\S]*\[2\], shape \[3\]"):
        getattr(floats([1.0, 2.0]), name)(floats([1.0, 2.0, 3.0]))


@pytest.mark.parametrize("name", BINARY)
def test_no_rank_kind_or_dtype_is_promoted(name: str) -> None:
    x = floats([1.0, 2.0])
    with pytest.raises(TensorTypeError, match="different ranks: 1 and 2"):
        getattr(x, name)(floats([[1.0, 2.0]]))
    with pytest.raises(TensorTypeError, match="different kinds: Float and Int"):
        getattr(x, name)(ints([1, 2]))
    with pytest.raises(TensorTypeError, match="different element types"):
        getattr(x, name)(torch.ones(2, dtype=torch.float64))


@pytest.mark.parametrize("name", [*BINARY, "neg", "sign", "abs", "square", "matmul", "clamp_min"])
def test_bool_tensors_have_no_arithmetic(name: str) -> None:
    x = bools([[True, False], [True, True]])
    arguments = [] if name in ("neg", "sign", "abs", "square") else [True if name == "clamp_min" else x]
    with pytest.raises(TensorTypeError, match="not defined for Bool tensors"):
        getattr(x, name)(*arguments)


def test_a_scalar_takes_the_tensors_dtype() -> None:
    assert ints([1, 2]).add(1.0).inner.tolist() == [2, 3]
    assert (ints([1, 2]) + 1.0).dtype is torch.int32
    assert floats([1.0]).add_scalar(2).dtype is torch.float32
    assert (floats([1.0]) + 2**70).inner.tolist() == [2.0**70]
    with pytest.raises(TensorValueError, match="larger than any"):
        floats([1.0]) + 10**400


@pytest.mark.parametrize("number", [1.5, -0.5, math.nan, math.inf, 2**70, 2**31, np.float64(0.5)])
@pytest.mark.parametrize(
    "call",
    [
        *(getattr(operator, name) for name in ("add", "sub", "mul", "truediv", "mod", "pow", "and_", "or_", "xor")),
        *(lambda x, n, f=f: f(n, x) for f in (operator.add, operator.sub, operator.mul, operator.mod, operator.pow)),
        *(lambda x, n, m=m: getattr(x, f"{m}_scalar")(n) for m in ("add", "sub", "mul", "div", "remainder", "powi")),
        lambda x, n: x.bitwise_left_shift_scalar(n),
        lambda x, n: x.clamp(n, n),
        lambda x, n: x.clamp_min(n),
        lambda x, n: x.clamp_max(n),
        lambda x, n: x.mask_fill(x > 1, n),
        lambda x, n: x.slice_fill([0], n),
        lambda x, n: x.one_hot_fill(4, n, 0, -1),
        lambda x, n: x.pad([(1, 1)], n),
        lambda x, n: x.full_like(n),
        lambda x, n: Tensor.full((2,), n, CPU, Int, torch.int32),
    ],
)
def test_an_int_tensor_takes_no_number_that_its_elements_can_not_be(call: Any, number: float) -> None:
    with pytest.raises(TensorValueError, match=r"takes whole numbers|outside of"):
        call(ints([1, 2]), number)
    with pytest.raises(TensorTypeError, match="expected a Float tensor of rank 1 or a number, got str"):
        floats([1.0]).add("1")
    with pytest.raises(TensorTypeError, match="or a number, got Tensor"):
        floats([1.0]).add_scalar(floats([1.0]))


def test_int_division_truncates_and_is_exact() -> None:
    assert ints([-7, 7, -7]).div(ints([2, -2, -2])).inner.tolist() == [-3, -3, 3]
    large = ints([(1 << 62) + 1], torch.int64)
    assert (large / 1).inner.tolist() == [(1 << 62) + 1]
    with pytest.raises(TensorValueError, match="'Div'"):
        ints([1]).div(0)


def test_the_smallest_int_divided_by_minus_one_wraps() -> None:
    assert ints([-(2**31), 6]).div(-1).inner.tolist() == [-(2**31), -6]


def test_remainder_has_the_sign_of_the_divisor() -> None:
    assert ints([-7, 7, -7]).remainder(ints([3, -3, -3])).inner.tolist() == [2, -2, -1]
    assert (floats([-7.5, 7.5]) % 2.0).inner.tolist() == [0.5, 1.5]


def test_int_powers_are_exact_and_negative_exponents_truncate() -> None:
    bases = ints([2, 1, -1, -1, 0], torch.int64)
    assert bases.powi(ints([-1, -1, -1, -2, 3], torch.int64)).inner.tolist() == [0, 1, -1, 1, 0]
    assert ints([2, 1, -1]).powi_scalar(-1).inner.tolist() == [0, 1, -1]
    assert ints([3], torch.int64).powi_scalar(39).inner.tolist() == [3**39]
    assert (2 ** ints([0, 3])).inner.tolist() == [1, 8]


@pytest.mark.parametrize("exponent", [0, 1, 2, 3, -1, -2])
def test_float_powers_with_whole_numbers(exponent: int) -> None:
    x = torch.tensor([-3.5, -1.0, 0.5, 2.25])
    assert torch.equal(Tensor(x, Cpu()).powi_scalar(exponent).inner, x**exponent)


def test_sign_of_nan_is_zero() -> None:
    assert floats([math.nan, -2.0, 0.0, 5.0]).sign().inner.tolist() == [0.0, -1.0, 0.0, 1.0]


def test_abs_of_the_smallest_int_is_itself() -> None:
    assert ints([-(2**31)]).abs().inner.tolist() == [-(2**31)]


def test_operators_stand_for_the_methods() -> None:
    x, y = floats([5.0, -3.0]), floats([2.0, 4.0])
    for result, expected in [
        (x + y, x.add(y)),
        (x - y, x.sub(y)),
        (x * y, x.mul(y)),
        (x / y, x.div(y)),
        (x % y, x.remainder(y)),
        (y**x, y.powf(x)),
        (-x, x.neg()),
        (abs(x), x.abs()),
    ]:
        assert torch.equal(result.inner, expected.inner)


def test_operators_with_a_scalar_on_the_left() -> None:
    x = floats([4.0, -2.0])
    assert (1 + x).inner.tolist() == [5.0, -1.0]
    assert (1 - x).inner.tolist() == [-3.0, 3.0]
    assert (2 * x).inner.tolist() == [8.0, -4.0]
    assert (1 / x).inner.tolist() == [0.25, -0.5]
    assert (7 % x).inner.tolist() == [3.0, -1.0]
    assert (2**x).inner.tolist() == [16.0, 0.25]
    assert (10 - ints([4])).inner.tolist() == [6]
    assert (10 % ints([4])).inner.tolist() == [2]
    assert (10 - ints([4], torch.int8)).dtype is torch.int8


def test_a_scalar_divided_by_a_tensor_is_for_float() -> None:
    x = torch.tensor([3.0, 7.0])
    assert torch.equal((5.0 / Tensor(x, Cpu())).inner, x.reciprocal() * 5.0)
    with pytest.raises(TensorTypeError, match="not defined for Int tensors"):
        operator.truediv(8, ints([2]))


def test_numpy_scalars_work_on_both_sides() -> None:
    x = floats([1.0, 2.0])
    assert (np.float64(2.0) * x).inner.tolist() == [2.0, 4.0]
    assert (x - np.float32(1.0)).inner.tolist() == [0.0, 1.0]
    assert (np.int64(3) - ints([1])).inner.tolist() == [2]


@pytest.mark.parametrize("name", BINARY)
def test_torch_tensors_are_operands_on_both_sides(name: str) -> None:
    x, y = torch.tensor([4.0, 3.0]), torch.tensor([2.0, 5.0])
    function = getattr(operator, {"div": "truediv", "remainder": "mod", "powi": "pow"}.get(name, name))
    expected = function(x, y)
    assert torch.equal(getattr(Tensor(x, Cpu()), name)(y).inner, expected)
    for result in (function(x, Tensor(y, Cpu())), function(Tensor(x, Cpu()), y)):
        assert type(result) is Tensor
        assert torch.equal(result.inner, expected)


def test_no_operand_is_changed() -> None:
    x, y = floats([1.0, 2.0]), floats([3.0, 4.0])
    for name in BINARY:
        getattr(x, name)(y)
    z = x
    z += y
    assert x.inner.tolist() == [1.0, 2.0]
    assert y.inner.tolist() == [3.0, 4.0]


@pytest.mark.parametrize(
    ("left", "right"), [((2, 3), (3, 4)), ((5, 2, 3), (1, 3, 4)), ((1, 2, 3), (5, 3, 2)), ((2, 1, 3, 2), (1, 4, 2, 3))]
)
def test_matmul_of_batches(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    x, y = torch.randn(left), torch.randn(right)
    result = Tensor(x, Cpu()).matmul(Tensor(y, Cpu()))
    torch.testing.assert_close(result.inner.double(), x.double() @ y.double(), rtol=1e-5, atol=1e-5)
    assert torch.equal((Tensor(x, Cpu()) @ y).inner, result.inner)
    assert torch.equal((x @ Tensor(y, Cpu())).inner, result.inner)


def test_matmul_of_ints_is_exact() -> None:
    x = ints([[(1 << 40) + 1, 3]], torch.int64)
    assert x.matmul(ints([[5], [7]], torch.int64)).inner.tolist() == [[5 * (1 << 40) + 26]]
    assert ints([[100]], torch.int8).matmul(ints([[3]], torch.int8)).inner.tolist() == [[300 - 256]]


@pytest.mark.parametrize("dtype", INT_DTYPES)
def test_int_products_by_limbs_are_exact(dtype: torch.dtype) -> None:
    from burnlike.backend.tables.arithmetic import limb_matmul

    info = torch.iinfo(dtype)
    x = torch.randint(info.min, info.max, (2, 3, 9), dtype=dtype)
    y = torch.randint(info.min, info.max, (1, 9, 4), dtype=dtype)
    assert torch.equal(limb_matmul(x, y), (x[:, :, :, None] * y[:, None]).sum(2, dtype=dtype))
    assert limb_matmul(x[..., :0], y[:, :0]).tolist() == torch.zeros(2, 3, 4, dtype=dtype).tolist()


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", INT_DTYPES)
def test_int_products_are_exact_on_cuda(dtype: torch.dtype) -> None:
    info = torch.iinfo(dtype)
    x = torch.randint(info.min, info.max, (2, 5, 33), dtype=dtype)
    y = torch.randint(info.min, info.max, (2, 33, 7), dtype=dtype)
    on_cuda: Any = Tensor(x.cuda(), Cuda()).matmul(Tensor(y.cuda(), Cuda()))
    assert torch.equal(on_cuda.inner.cpu(), x @ y)
    dot: Any = Tensor(x[0, 0].cuda(), Cuda()).dot(Tensor(x[0, 1].cuda(), Cuda()))
    assert torch.equal(dot.inner.cpu(), (x[0, 0] * x[0, 1]).sum(0, True, dtype=dtype))


def test_matmul_says_which_sizes_do_not_fit() -> None:
    with pytest.raises(TensorValueError, match=r"'Matmul'[\s\S]*got 2 and 3 \(shapes \[4, 2\] and \[3, 4\]\)"):
        floats([[0.0] * 2] * 4).matmul(floats([[0.0] * 4] * 3))
    with pytest.raises(TensorValueError, match="got 2 and 3 in dimension 0"):
        Tensor(torch.ones(2, 1, 1), Cpu()).matmul(Tensor(torch.ones(3, 1, 1), Cpu()))


def test_vectors_have_dot_and_no_matmul() -> None:
    x, y = floats([1.0, 2.0, 3.0]), floats([4.0, 5.0, 6.0])
    with pytest.raises(TensorValueError, match="use dot"):
        x.matmul(y)
    assert x.dot(y).inner.tolist() == [32.0]
    assert ints([1, 2]).dot(ints([3, 4])).inner.tolist() == [11]
    assert ints([1, 2]).dot(ints([3, 4])).dtype is torch.int32
    with pytest.raises(TensorValueError, match="vectors of one size"):
        x.dot(floats([1.0]))
    with pytest.raises(TensorValueError, match="use matmul"):
        floats([[1.0]]).dot(floats([[1.0]]))


def test_clamp_lets_the_minimum_win() -> None:
    x = floats([0.0, 3.0, 9.0, math.nan])
    assert x.clamp(5.0, 2.0).inner.tolist()[:3] == [5.0, 5.0, 5.0]
    assert x.clamp(1, 4).inner.tolist()[:3] == [1.0, 3.0, 4.0]
    assert math.isnan(x.clamp(1.0, 2.0).inner[3])
    assert ints([0, 3, 9]).clamp(1, 4).inner.tolist() == [1, 3, 4]
    assert ints([0, 3, 9]).clamp_min(1.0).inner.tolist() == [1, 3, 9]
    assert ints([0, 3, 9]).clamp_max(4).inner.tolist() == [0, 3, 4]


def test_pairs_ignore_nan_in_the_other_and_keep_it_in_the_receiver() -> None:
    x, y = floats([math.nan, 1.0, 5.0]), floats([1.0, math.nan, 2.0])
    assert x.max_pair(y).inner.tolist()[1:] == [1.0, 5.0]
    assert x.min_pair(y).inner.tolist()[1:] == [1.0, 2.0]
    assert math.isnan(x.max_pair(y).inner[0])
    assert math.isnan(x.min_pair(y).inner[0])
    assert ints([1, 5]).max_pair(ints([2, 3])).inner.tolist() == [2, 5]
    with pytest.raises(TensorTypeError, match="expected a Float tensor of rank 1, got float"):
        x.max_pair(2.0)


def test_pairs_pass_the_gradient_to_what_was_taken() -> None:
    x = torch.tensor([1.0, 4.0, 3.0], requires_grad=True)
    y = torch.tensor([2.0, 2.0, 3.0], requires_grad=True)
    Tensor(x, Autodiff(Cpu())).max_pair(Tensor(y, Autodiff(Cpu()))).inner.sum().backward()
    assert x.grad is not None
    assert y.grad is not None
    assert x.grad.tolist() == [0.0, 1.0, 1.0]
    assert y.grad.tolist() == [1.0, 0.0, 0.0]


def test_an_untracking_backend_detaches_torch_operands() -> None:
    weight = torch.ones(2, requires_grad=True)
    assert not (floats([1.0, 2.0]) * weight).inner.requires_grad
    assert not (weight - floats([1.0, 2.0])).inner.requires_grad


def test_arithmetic_compiles_without_breaks() -> None:
    def step(x: Any, y: Any) -> Any:
        return (2.0 - x * y) / (x % 3.0 + 1) + (x**2).clamp(0.0, 5.0).max_pair(y)

    x, y = floats([1.0, 2.0]), floats([3.0, 0.5])
    compiled = torch.compile(step, fullgraph=True, backend="eager")
    assert torch.equal(compiled(x, y).inner, step(x, y).inner)


BEYOND: dict[str, Callable[[Any, float], Any]] = {
    "clamp": lambda x, big: x.clamp(-big, big),
    "clamp_min": lambda x, big: x.clamp_min(big),
    "clamp_max": lambda x, big: x.clamp_max(big),
    "full": lambda x, big: Tensor.full((2,), -big, x.backend, dtype=x.dtype),
    "full_like": lambda x, big: x.full_like(big),
    "pad": lambda x, big: x.pad([(1, 0)], -big),
    "mask_fill": lambda x, big: x.mask_fill(x.greater_scalar(1.5), -big),
    "slice_fill": lambda x, big: x.slice_fill([slice(0, 1)], big),
    "one_hot_fill": lambda x, big: x.sub_scalar(1.0).one_hot_fill(2, big, -big, -1),
    "powf_scalar": lambda x, big: x.powf_scalar(big),
    "powi_scalar": lambda x, big: x.powi_scalar(big),
    "vector_normalize": lambda x, big: linalg.vector_normalize(x, 2.0, 0, big),
    "cosine_similarity": lambda x, big: linalg.cosine_similarity(x, x, 0, big),
    "add": lambda x, big: x + big,
    "lower": lambda x, big: x.lower_scalar(big),
}


@pytest.mark.parametrize("name", BEYOND)
@pytest.mark.parametrize(
    ("dtype", "big"), [(torch.float16, 1e9), (torch.float16, 65519.0), (torch.bfloat16, 1e39), (torch.float32, 1e39)]
)
def test_numbers_beyond_the_element_type_are_infinite(name: str, dtype: torch.dtype, big: float) -> None:
    rounded = torch.tensor(big, dtype=torch.float64).to(dtype).item()
    x = Tensor(torch.tensor([1.0, 2.0], dtype=dtype), Cpu())
    wanted = BEYOND[name](Tensor(x.inner.double(), Cpu()), rounded).inner
    found = BEYOND[name](x, big).inner
    assert torch.equal(found, wanted.to(found.dtype))

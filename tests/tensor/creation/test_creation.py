import numpy as np
import pytest
import torch

from burnlike import Autodiff, Bool, Cpu, Float, Int, Tensor
from burnlike.errors import TensorError, TensorTypeError, TensorValueError
from burnlike.tensor import Distribution, TensorData

CPU = Cpu()
HALF = Cpu(float=torch.bfloat16, int=torch.int32)


@pytest.mark.parametrize(
    ("kind", "dtype"), [(Float, torch.bfloat16), (Int, torch.int32), (Bool, torch.bool)], ids=["Float", "Int", "Bool"]
)
@pytest.mark.parametrize("make", [Tensor.zeros, Tensor.ones, Tensor.empty])
def test_a_new_tensor_has_the_backends_dtype_for_its_kind(make, kind, dtype) -> None:
    x = make((2, 3), HALF, kind)
    assert (x.dtype, x.shape, x.backend) == (dtype, (2, 3), HALF)


def test_a_given_dtype_wins() -> None:
    assert Tensor.zeros((2,), CPU, dtype=torch.float64).dtype is torch.float64
    assert Tensor.ones([2], CPU, Int, "u8").dtype is torch.uint8


def test_full_converts_its_value_and_not_its_dtype() -> None:
    assert Tensor.full((2,), 2.0, CPU, Int).inner.tolist() == [2, 2]
    assert Tensor.full((2,), 1, CPU).inner.tolist() == [1.0, 1.0]
    assert Tensor.full((1,), 3, CPU, Bool).inner.tolist() == [True]


def test_like_keeps_shape_dtype_and_backend() -> None:
    x = Tensor(torch.ones(2, 3, dtype=torch.int8), HALF)
    for made, value in ((x.zeros_like(), 0), (x.ones_like(), 1), (x.full_like(7.0), 7)):
        assert made.spec is x.spec
        assert made.inner.unique().tolist() == [value]
    assert x.empty_like().spec is x.spec


@pytest.mark.parametrize(
    "call",
    [
        lambda: Tensor.zeros((), CPU),
        lambda: Tensor.zeros((1,) * 9, CPU),
        lambda: Tensor.ones((2, -1), CPU),
        lambda: Tensor.from_data(torch.ones(()), CPU),
        lambda: Tensor.from_data([[1.0], [2.0, 3.0]], CPU),
        lambda: Tensor.from_data(["a"], CPU),
        lambda: Tensor.from_data([float("nan")], CPU, Int),
        lambda: Tensor.full((2,), float("inf"), CPU, Int),
        lambda: Tensor.from_data([[1, 2.5]], CPU, Int),
        lambda: Tensor.from_ints([1.5], CPU),
        lambda: Tensor.arange(0, 2.5, CPU),
        lambda: Tensor.arange_step(0, 3, 0, CPU),
        lambda: Tensor.cartesian_grid((), CPU),
        lambda: Tensor.cartesian_grid((1,) * 8, CPU),
    ],
)
def test_what_no_tensor_can_be_is_refused(call) -> None:
    with pytest.raises(TensorValueError):
        call()


@pytest.mark.parametrize(
    "call",
    [
        lambda: Tensor.zeros((2,), CPU, Int, torch.float32),
        lambda: Tensor.zeros((2,), CPU, int),
        lambda: Tensor.zeros(2, CPU),
        lambda: Tensor.from_data("ab", CPU),
        lambda: Tensor.random((2,), Distribution.Default, CPU, Bool),
        lambda: Tensor.eye(2, CPU, Bool),
    ],
)
def test_wrong_types_are_refused(call) -> None:
    with pytest.raises(TensorTypeError):
        call()


def test_from_data_converts_and_copies() -> None:
    for array in (np.array([[1.0, -(2.0**63)]]), np.array([[1, -(2**63)]]), torch.tensor([[1.0, -(2.0**63)]])):
        assert Tensor.from_data(array, CPU, Int).inner.tolist() == [[1, -(2**63)]]
    for dtype in (np.int64, np.uint16, np.float32):
        assert Tensor.from_data(np.array([0, 127], dtype=dtype), CPU, Int, torch.int8).inner.tolist() == [0, 127]
    assert Tensor.from_data(np.zeros((0, 2)), CPU, Int).inner.shape == (0, 2)
    source = torch.tensor([1.0, 2.0])
    copy = Tensor.from_data(source, CPU)
    source[0] = 9.0
    assert copy.inner.tolist() == [1.0, 2.0]
    assert Tensor.from_data(copy, HALF).dtype is torch.bfloat16
    assert Tensor.from_data([[1, 2], [3, 4]], CPU).inner.tolist() == [[1.0, 2.0], [3.0, 4.0]]


@pytest.mark.parametrize("make", [list, np.array, torch.tensor])
@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        *(([0.0, it, 3.0], torch.int64) for it in (1.5, float("nan"), float("inf"), 1e30, 2.0**63)),
        *(([0, it], torch.int8) for it in (128, -129, 300, 0.5)),
        ([-1], torch.uint64),
    ],
)
def test_from_data_refuses_what_an_int_would_lose(make, values, dtype) -> None:
    with pytest.raises(TensorValueError):
        Tensor.from_data(make(values), CPU, Int, dtype)


def test_from_ints_refuses_unsigned_numbers_beyond_its_dtype() -> None:
    with pytest.raises(TensorValueError, match=r"9\.22.* is no whole number of -9223372036854775808\.\."):
        Tensor.from_ints(np.array([2**63], dtype=np.uint64), CPU)


def test_from_data_loses_no_digit_on_the_way() -> None:
    wide = Cpu(float=torch.float64)
    assert Tensor.from_floats([0.1], wide).inner.item() == 0.1
    assert Tensor.from_ints([2**53 + 1], CPU).inner.item() == 2**53 + 1
    assert Tensor.from_data(TensorData.new([0.1], [1], "f64"), wide).inner.item() == 0.1


def test_from_data_of_a_tracked_tensor_has_no_history() -> None:
    source = torch.ones(2, requires_grad=True)
    assert not Tensor.from_data(source, Autodiff(CPU)).inner.requires_grad


def test_from_bool_takes_every_other_number_as_true() -> None:
    assert Tensor.from_bool([[True, False]], CPU).inner.tolist() == [[True, False]]
    assert Tensor.from_bool([2, 0], CPU).inner.tolist() == [True, False]


def test_ranges_are_half_open() -> None:
    assert Tensor.arange(2, 5, HALF).inner.tolist() == [2, 3, 4]
    assert Tensor.arange(2, 5, HALF).dtype is torch.int32
    assert Tensor.arange(5, 2, CPU).shape == (0,)
    assert Tensor.arange_step(-5, 1, 5, CPU).inner.tolist() == [-5, 0]


def test_a_grid_holds_the_place_of_each_cell() -> None:
    grid = Tensor.cartesian_grid((2, 3), CPU).inner
    assert grid.shape == (2, 3, 2)
    assert all(grid[i, j].tolist() == [i, j] for i in range(2) for j in range(3))


@pytest.mark.parametrize(
    ("distribution", "mean", "variance"),
    [
        (Distribution.Default, 0.5, 1 / 12),
        (Distribution.Uniform(-2.0, 4.0), 1.0, 3.0),
        (Distribution.Normal(3.0, 2.0), 3.0, 4.0),
        (Distribution.Bernoulli(0.25), 0.25, 0.1875),
    ],
)
def test_random_elements_have_the_moments_of_their_distribution(distribution, mean, variance) -> None:
    x = Tensor.random((200_000,), distribution, CPU).inner.double()
    assert x.mean().item() == pytest.approx(mean, abs=0.03)
    assert x.var().item() == pytest.approx(variance, rel=0.03)


def test_random_integers_are_truncated_numbers() -> None:
    x = Tensor.random((10_000,), Distribution.Default, CPU, Int).inner
    assert (x.dtype, int(x.min()), int(x.max())) == (torch.int64, 0, 254)
    # Both (-1, 0) and [0, 1) become 0.
    around = Tensor.random((30_000,), Distribution.Uniform(-1.5, 1.5), CPU, Int).inner
    assert (around == 0).float().mean().item() == pytest.approx(2 / 3, abs=0.02)


def test_the_same_seed_draws_the_same_numbers() -> None:
    def drawn() -> list[float]:
        CPU.seed(3)
        return Tensor.random((4,), Distribution.Normal(0.0, 1.0), CPU).inner.tolist()

    assert drawn() == drawn()


def test_random_like_keeps_the_dtype() -> None:
    x = Tensor.zeros((50,), HALF).random_like(Distribution.Uniform(2.0, 3.0))
    assert x.dtype is torch.bfloat16
    x.to_data().assert_within_range_inclusive(2.0, 3.0)


@pytest.mark.parametrize(
    "call",
    [
        lambda: Distribution.Bernoulli(1.5),
        lambda: Distribution.Uniform(1.0, 0.0),
        lambda: Distribution.Normal(0.0, -1.0),
        lambda: Distribution.Normal(float("nan"), 1.0),
        lambda: Tensor.random((2,), "default", CPU),
        lambda: Tensor.zeros((2,), CPU).random_like(None),
    ],
)
def test_a_distribution_that_is_none_is_refused(call) -> None:
    with pytest.raises(TensorError, match="Random"):
        call()


@pytest.mark.parametrize("dtype", ["u8", "u16", "u32", "u64"])
def test_unsigned_types_that_torch_lacks_functions_for(dtype) -> None:
    x = Tensor.eye(2, CPU, Int, dtype)
    assert (x.inner.tolist(), x.tril(-1).inner.tolist()) == ([[1, 0], [0, 1]], [[0, 0], [0, 0]])
    assert x.triu(0).dtype is x.dtype
    assert Tensor.arange(1, 3, CPU, dtype).inner.tolist() == [1, 2]

"""Activation functions against torch in float64 and against their formulas."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from burnlike import Cpu, Tensor
from burnlike.backend import Autodiff
from burnlike.errors import TensorTypeError, TensorValueError
from burnlike.tensor import activation

POINTS = torch.tensor([[-7.0, -1.0, -0.3], [0.0, 0.4, 6.5]], dtype=torch.float64)

CASES: dict[str, tuple[Callable[[Any], Any], Callable[[torch.Tensor], torch.Tensor]]] = {
    "relu": (activation.relu, F.relu),
    "leaky_relu": (lambda x: activation.leaky_relu(x, 0.2), lambda x: F.leaky_relu(x, 0.2)),
    "gelu": (activation.gelu, lambda x: x * (1 + torch.erf(x / math.sqrt(2))) / 2),
    "gelu_approximate": (activation.gelu_approximate, lambda x: F.gelu(x, approximate="tanh")),
    "softmax": (lambda x: activation.softmax(x, 1), lambda x: x.exp() / x.exp().sum(1, True)),
    "softmin": (lambda x: activation.softmin(x, 0), lambda x: F.softmin(x, 0)),
    "log_softmax": (lambda x: activation.log_softmax(x, -1), lambda x: F.log_softmax(x, 1)),
    "quiet_softmax": (lambda x: activation.quiet_softmax(x, 1), lambda x: x.exp() / (1 + x.exp().sum(1, True))),
    "sigmoid": (activation.sigmoid, torch.sigmoid),
    "hard_sigmoid": (lambda x: activation.hard_sigmoid(x, 0.2, 0.5), lambda x: (0.2 * x + 0.5).clamp(0, 1)),
    "log_sigmoid": (activation.log_sigmoid, F.logsigmoid),
    "silu": (activation.silu, F.silu),
    "hard_swish": (activation.hard_swish, lambda x: x * (x / 6 + 0.5).clamp(0, 1)),
    "mish": (activation.mish, lambda x: x * torch.tanh(torch.log1p(x.exp()))),
    "softplus": (lambda x: activation.softplus(x, 2.0), lambda x: torch.log1p((2 * x).exp()) / 2),
    "tanh": (activation.tanh, torch.tanh),
    "elu": (lambda x: activation.elu(x, 1.5), lambda x: F.elu(x, 1.5)),
    "celu": (lambda x: activation.celu(x, 1.5), lambda x: F.celu(x, 1.5)),
    "selu": (activation.selu, F.selu),
    "thresholded_relu": (lambda x: activation.thresholded_relu(x, 0.4), lambda x: F.threshold(x, 0.4, 0.0)),
    "softsign": (activation.softsign, F.softsign),
    "hard_shrink": (lambda x: activation.hard_shrink(x, 0.3), lambda x: F.hardshrink(x, 0.3)),
    "soft_shrink": (lambda x: activation.soft_shrink(x, 0.3), lambda x: F.softshrink(x, 0.3)),
    "hardtanh": (lambda x: activation.hardtanh(x, -0.5, 0.5), lambda x: F.hardtanh(x, -0.5, 0.5)),
    "tanhshrink": (activation.tanhshrink, F.tanhshrink),
    "relu6": (activation.relu6, F.relu6),
    "threshold": (lambda x: activation.threshold(x, 0.1, 9.0), lambda x: F.threshold(x, 0.1, 9.0)),
}


@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients_are_those_of_torch_in_float64(name: str) -> None:
    function, reference = CASES[name]
    points = POINTS + 0.01  # beside the kinks
    ours, theirs = points.clone().requires_grad_(), points.clone().requires_grad_()
    out, expected = function(Tensor(ours, Autodiff(Cpu()))).inner, reference(theirs)
    torch.testing.assert_close(out, expected, rtol=1e-12, atol=1e-12)
    out.square().sum().backward()
    expected.square().sum().backward()
    torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-10, atol=1e-10)


def test_relu_lets_nan_through() -> None:
    assert activation.relu(Tensor(torch.tensor([math.nan, -1.0]), Cpu())).inner.isnan().tolist() == [True, False]


def test_shrink_moves_by_its_bias() -> None:
    x = Tensor(torch.tensor([-3.0, -1.0, 0.5, 2.0]), Cpu())
    assert activation.shrink(x, 1.0, 0.25).inner.tolist() == [-2.75, 0.0, 0.0, 1.75]


def test_soft_shrink_takes_a_negative_lambda() -> None:
    x = Tensor(torch.tensor([-2.0, 0.0, 2.0]), Cpu())
    assert activation.soft_shrink(x, -1.0).inner.tolist() == [-3.0, 0.0, 3.0]


def test_quiet_softmax_of_nothing_is_zero() -> None:
    x = Tensor(torch.full((2, 3), -math.inf), Cpu())
    assert activation.quiet_softmax(x, 1).inner.tolist() == [[0.0] * 3] * 2


def test_softmaxes_along_an_empty_dimension_are_empty() -> None:
    x = Tensor(torch.zeros(2, 0), Cpu())
    for function in (activation.softmax, activation.softmin, activation.log_softmax, activation.quiet_softmax):
        assert function(x, 1).inner.shape == (2, 0)


def test_quiet_softmax_of_large_numbers_is_finite() -> None:
    x = Tensor(torch.tensor([1000.0, 1000.0]), Cpu())
    assert activation.quiet_softmax(x, 0).inner.tolist() == [0.5, 0.5]


def test_softplus_is_the_identity_above_its_threshold() -> None:
    x = Tensor(torch.tensor([1.0, 3.0]), Cpu())
    assert activation.softplus_with_threshold(x, 1.0, 2.0).inner.tolist() == pytest.approx([math.log1p(math.e), 3.0])


@pytest.mark.parametrize(("dtype", "limit"), [(torch.float16, 11.0), (torch.float32, 88.0), (torch.float64, 709.0)])
def test_softplus_lowers_its_threshold_to_what_the_dtype_holds(dtype: torch.dtype, limit: float) -> None:
    inner = torch.tensor([limit * 10], dtype=dtype, requires_grad=True)
    out = activation.softplus_with_threshold(Tensor(inner, Autodiff(Cpu())), 1.0, 1e9).inner
    out.backward()
    assert out.item() == inner.item()
    assert inner.grad is not None
    assert inner.grad.item() == 1.0


def test_prelu_has_a_weight_for_each_channel() -> None:
    x = torch.randn(2, 3, 4, dtype=torch.float64)
    alpha = torch.nn.Parameter(torch.tensor([0.1, 0.2, 0.3], dtype=torch.float64))
    torch.testing.assert_close(activation.prelu(Tensor(x, Cpu()), alpha).inner, F.prelu(x, alpha).detach())


@pytest.mark.parametrize(("shape", "weights"), [((2, 3), 2), ((3,), 3)])
def test_prelu_refuses_other_counts_of_weights(shape: tuple[int, ...], weights: int) -> None:
    x: Any = Tensor(torch.zeros(shape), Cpu())
    with pytest.raises(TensorValueError, match="expected 1 weight or one for each"):
        activation.prelu(x, torch.zeros(weights))


def test_glu_halves_a_dimension() -> None:
    x = torch.randn(2, 4, 3, dtype=torch.float64)
    torch.testing.assert_close(activation.glu(Tensor(x, Cpu()), -2).inner, x[:, :2] * torch.sigmoid(x[:, 2:]))
    with pytest.raises(TensorValueError, match="even size of dimension 2, got 3"):
        activation.glu(Tensor(x, Cpu()), 2)


@pytest.mark.parametrize("dim", [2, -3])
def test_softmax_refuses_a_dimension_outside_of_the_rank(dim: int) -> None:
    with pytest.raises(TensorValueError, match=r"outside of -2\.\.1"):
        activation.softmax(Tensor(POINTS, Cpu()), dim)


def test_only_float_tensors_are_taken() -> None:
    wrong: list[Any] = [Tensor(torch.tensor([1]), Cpu()), torch.tensor([1.0])]
    with pytest.raises(TensorTypeError, match="expected a Float tensor, got one of kind Int"):
        activation.relu(wrong[0])
    with pytest.raises(TensorTypeError, match=r"expected a burnlike Tensor, got torch\.Tensor; use"):
        activation.relu(wrong[1])


def test_celu_refuses_to_divide_by_zero() -> None:
    with pytest.raises(TensorValueError, match="alpha other than 0"):
        activation.celu(Tensor(POINTS, Cpu()), 0.0)


@pytest.mark.parametrize(("lambd", "wanted"), [(math.inf, [0.0, 0.0]), (1e39, [0.0, 0.0]), (-1.0, [2.0, -3.0])])
def test_soft_shrink_takes_any_lambda(lambd: float, wanted: list[float]) -> None:
    assert activation.soft_shrink(Tensor(torch.tensor([1.0, -2.0]), Cpu()), lambd).inner.tolist() == wanted


def test_shrink_keeps_nan() -> None:
    x = Tensor(torch.tensor([math.nan, -2.0, 0.2, 0.5]), Cpu())
    for found in (
        activation.shrink(x, 0.5, 0.1),
        activation.soft_shrink(x, -0.5),
        activation.soft_shrink(x, 1e5),
        activation.hard_shrink(x, 0.5),
    ):
        assert found.inner.isnan().tolist() == [True, False, False, False]
    assert activation.shrink(x, 0.5, 0.1).inner.tolist()[1:] == pytest.approx([-1.9, 0.0, 0.0])


def test_hardtanh_takes_the_smaller_bound_where_the_bounds_cross() -> None:
    x = Tensor(torch.tensor([-3.0, 0.0, 3.0]), Cpu())
    assert activation.hardtanh(x, 1.0, -1.0).inner.tolist() == x.clamp(1.0, -1.0).inner.tolist() == [1.0, 1.0, 1.0]


OF_NUMBERS: dict[str, Callable[[Any, float], Any]] = {
    "hardtanh": lambda x, big: activation.hardtanh(x, -big, big),
    "threshold": lambda x, big: activation.threshold(x, 1.5, big),
    "thresholded_relu": activation.thresholded_relu,
    "hard_shrink": activation.hard_shrink,
    "leaky_relu": activation.leaky_relu,
    "elu": activation.elu,
    "celu": activation.celu,
    "softplus": activation.softplus,
}


@pytest.mark.parametrize("name", OF_NUMBERS)
@pytest.mark.parametrize(
    ("dtype", "big"), [(torch.float16, 1e9), (torch.float16, 65519.0), (torch.bfloat16, 1e39), (torch.float32, 1e39)]
)
def test_numbers_beyond_the_element_type_are_infinite(name: str, dtype: torch.dtype, big: float) -> None:
    x = Tensor(torch.tensor([1.0, 2.0], dtype=dtype), Cpu())
    rounded = torch.tensor(big, dtype=torch.float64).to(dtype).item()
    wide = Tensor(x.inner.double(), Cpu())
    assert OF_NUMBERS[name](x, big).inner.tolist() == OF_NUMBERS[name](wide, rounded).inner.tolist()

import pytest
import torch
from torch.nn import functional

from burnlike import Autodiff, Bool, Cpu, Tensor
from burnlike.errors import TensorTypeError, TensorValueError
from burnlike.tensor import PadMode

CPU = Cpu()
PAIRS = [(1, 2), (2, 0)]
FLAT = [2, 0, 1, 2]  # torch begins at the last dimension


@pytest.mark.parametrize(
    ("mode", "torchs"),
    [(1.5, "constant"), (PadMode.Constant(1.5), "constant"), ("Reflect", "reflect"), (PadMode.Edge, "replicate")],
)
def test_padding_is_torchs(mode, torchs) -> None:
    inner = torch.randn(2, 3, 4, 5)
    expected = functional.pad(inner, FLAT, mode=torchs, value=1.5 if torchs == "constant" else None)
    x = Tensor(inner, CPU)
    assert torch.equal(x.pad(PAIRS, mode).inner, expected)
    left, right, top, bottom = FLAT
    assert torch.equal(x.pad((left, right, top, bottom), mode).inner, expected)


def test_integers_and_any_rank_are_padded() -> None:
    x = Tensor(torch.tensor([1, 2, 3], dtype=torch.int16), CPU)
    assert x.pad([(2, 1)], "reflect").inner.tolist() == [3, 2, 1, 2, 3, 2]
    assert x.pad([(2, 1)], "Edge").inner.tolist() == [1, 1, 1, 2, 3, 3]
    constant = x.pad([(1, 0)], 7.0)
    assert (constant.inner.tolist(), constant.dtype) == ([7, 1, 2, 3], torch.int16)
    assert Tensor.zeros((1, 1, 2, 2, 2), CPU).pad([(1, 1)] * 3, "Edge").shape == (1, 1, 4, 4, 4)
    assert Tensor.zeros((0, 3), CPU).pad([(2, 2), (0, 0)], 1.0).shape == (4, 3)


@pytest.mark.parametrize(
    ("shape", "padding", "mode", "message"),
    [
        ((1, 3), (3, 0, 0, 0), "Reflect", "Reflect padding"),
        ((2, 3), [(0, 0), (0, 3)], "Reflect", "Reflect padding"),
        ((0, 3), [(1, 0), (0, 0)], "Edge", "Edge padding"),
        ((1, 2), [(1, 1)] * 3, 0.0, "Padding has"),
        ((3,), (1, 1, 1, 1), 0.0, "Padding has"),
        ((3,), [(-1, 0)], 0.0, "0 or above"),
        ((3,), [(1, 0)], "Circular", "Reflect, Edge"),
    ],
)
def test_padding_that_can_not_be_is_refused(shape, padding, mode, message) -> None:
    with pytest.raises(TensorValueError, match=message):
        Tensor.zeros(shape, CPU).pad(padding, mode)


def test_only_numbers_are_padded() -> None:
    with pytest.raises(TensorTypeError, match="Bool"):
        Tensor.zeros((2, 2), CPU, Bool).pad([(1, 1)], 0)  # pyright: ignore[reportAttributeAccessIssue, reportCallIssue]
    with pytest.raises(TensorTypeError, match="pairs"):
        Tensor.zeros((2, 2), CPU).pad([1, 1], 0.0)  # pyright: ignore[reportArgumentType, reportCallIssue]


@pytest.mark.parametrize("diagonal", [-2, 0, 1])
def test_triangles_are_torchs(diagonal) -> None:
    inner = torch.arange(1, 25).reshape(2, 3, 4)
    x = Tensor(inner, CPU)
    assert torch.equal(x.triu(diagonal).inner, inner.triu(diagonal))
    assert torch.equal(x.tril(diagonal).inner, inner.tril(diagonal))


def test_a_vector_has_no_triangle() -> None:
    for call in (Tensor.ones((3,), CPU).triu, Tensor.ones((3,), CPU).tril):
        with pytest.raises(TensorValueError, match="Tri"):
            call(0)


@pytest.mark.parametrize("mode", [0.0, "Reflect", "Edge"])
def test_gradients_pass_through_twice(mode) -> None:
    leaf = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    backend = Autodiff(CPU)

    def padded(it: torch.Tensor) -> torch.Tensor:
        x = Tensor(it, backend).pad([(1, 2), (2, 1)], mode)
        return (x.inner * x.inner).tril()

    assert torch.autograd.gradcheck(padded, leaf)
    assert torch.autograd.gradgradcheck(padded, leaf)

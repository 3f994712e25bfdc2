"""Convolutions against torch in float64."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F

from burnlike import Cpu, Tensor
from burnlike.backend import Autodiff
from burnlike.errors import TensorTypeError, TensorValueError
from burnlike.tensor import module
from burnlike.tensor.options import ConvOptions, ConvTransposeOptions, DeformConvOptions, UnfoldOptions

CONV: dict[int, tuple[Any, Any]] = {
    1: (module.conv1d, F.conv1d),
    2: (module.conv2d, F.conv2d),
    3: (module.conv3d, F.conv3d),
}
TRANSPOSED: dict[int, tuple[Any, Any]] = {
    1: (module.conv_transpose1d, F.conv_transpose1d),
    2: (module.conv_transpose2d, F.conv_transpose2d),
    3: (module.conv_transpose3d, F.conv_transpose3d),
}


def numbers(*shape: int) -> torch.Tensor:
    return torch.randn(shape, dtype=torch.float64)


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_conv_is_torchs(dims: int) -> None:
    ours, theirs = CONV[dims]
    x, weight, bias = numbers(2, 4, *[7] * dims), numbers(6, 2, *[3] * dims), numbers(6)
    out = ours(Tensor(x, Cpu()), weight, Tensor(bias, Cpu()), ConvOptions(stride=2, padding=1, dilation=2, groups=2))
    torch.testing.assert_close(out.inner, theirs(x, weight, bias, 2, 1, 2, 2))


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_conv_transpose_is_torchs(dims: int) -> None:
    ours, theirs = TRANSPOSED[dims]
    x, weight, bias = numbers(2, 4, *[5] * dims), numbers(4, 3, *[3] * dims), numbers(6)
    options = ConvTransposeOptions(stride=2, padding=1, padding_out=1, groups=2, dilation=2)
    out = ours(Tensor(x, Cpu()), weight, bias, options)
    torch.testing.assert_close(out.inner, theirs(x, weight, bias, 2, 1, 1, 2, 2))


def test_conv_transpose_takes_more_padding_out_than_torch() -> None:
    x, weight, bias = numbers(1, 2, 5), numbers(2, 3, 4), numbers(3)
    out = module.conv_transpose1d(Tensor(x, Cpu()), weight, bias, ConvTransposeOptions(padding=2, padding_out=3))
    whole = F.conv_transpose1d(x, weight) + bias[:, None]  # [1, 3, 8]
    expected = torch.cat([whole[:, :, 2:], bias[None, :, None]], 2)
    torch.testing.assert_close(out.inner, expected)


def test_the_ends_of_a_conv_may_have_padding_of_their_own() -> None:
    x, weight = numbers(1, 2, 5, 6), numbers(3, 2, 2, 3)
    out = module.conv2d(Tensor(x, Cpu()), weight, None, ConvOptions(padding=[(0, 1), (2, 1)]))
    torch.testing.assert_close(out.inner, F.conv2d(F.pad(x, [2, 1, 0, 1]), weight))


def test_weight_backward_is_the_gradient_of_the_weight() -> None:
    x, weight = numbers(2, 4, 6, 7), numbers(6, 2, 3, 2).requires_grad_()
    options = ConvOptions(stride=[2, 1], padding=[(1, 1), (0, 1)], groups=2)
    out = F.conv2d(F.pad(x, [0, 1, 1, 1]), weight, stride=(2, 1), groups=2)
    grad = numbers(*out.shape)
    out.backward(grad)
    found = module.conv2d_weight_backward(Tensor(x, Cpu()), weight, grad, options)
    assert weight.grad is not None
    torch.testing.assert_close(found.inner, weight.grad)


def test_deform_conv_without_moves_is_a_conv() -> None:
    x, weight, bias = numbers(2, 4, 6, 5), numbers(6, 2, 3, 2), numbers(6)
    expected = F.conv2d(x, weight, bias, (2, 1), (1, 1), (1, 2), 2)
    size = expected.shape[2:]
    options = DeformConvOptions(stride=[2, 1], padding=1, dilation=[1, 2], weight_groups=2, offset_groups=2)
    offset, mask = torch.zeros(2, 24, *size, dtype=torch.float64), torch.full((2, 12, *size), 0.5, dtype=torch.float64)
    out = module.deform_conv2d(Tensor(x, Cpu()), offset, weight, None, bias, options)
    torch.testing.assert_close(out.inner, expected)
    out = module.deform_conv2d(Tensor(x, Cpu()), offset, weight, mask, bias, options)
    torch.testing.assert_close(out.inner, (expected + bias[:, None, None]) / 2)


def test_deform_conv_reads_where_the_offsets_of_its_group_say() -> None:
    x = numbers(1, 2, 3, 3)
    offset = torch.zeros(1, 4, 3, 3, dtype=torch.float64)
    offset[:, 1] = 1.0  # the first channel is read one column to the right,
    offset[:, 2] = -0.5  # the second half a row up
    weight = torch.eye(2, dtype=torch.float64)[:, :, None, None]
    out = module.deform_conv2d(Tensor(x, Cpu()), offset, weight, None, None, DeformConvOptions(offset_groups=2)).inner
    torch.testing.assert_close(out[:, 0], F.pad(x[:, 0], [0, 1])[:, :, 1:])
    torch.testing.assert_close(out[:, 1], (x[:, 1] + F.pad(x[:, 1], [0, 0, 1, 0])[:, :-1]) / 2)


def test_an_empty_batch_stays_empty() -> None:
    x, weight, offset = numbers(0, 2, 4, 4), numbers(3, 2, 2, 2), numbers(0, 8, 3, 3)
    out = module.deform_conv2d(Tensor(x, Cpu()), offset, weight, None, None, DeformConvOptions())
    assert out.inner.shape == (0, 3, 3, 3)
    assert module.conv2d(Tensor(x, Cpu()), weight, None, ConvOptions()).inner.shape == (0, 3, 3, 3)


def test_deform_conv_has_gradients_for_all_its_tensors() -> None:
    options = DeformConvOptions(padding=1, weight_groups=2, offset_groups=2)

    def run(*tensors: torch.Tensor) -> torch.Tensor:
        x, offset, weight, mask, bias = tensors
        return module.deform_conv2d(Tensor(x, Autodiff(Cpu())), offset, weight, mask, bias, options).inner

    shapes = [(1, 4, 4, 3), (1, 16, 5, 4), (2, 2, 2, 2), (1, 8, 5, 4), (2,)]
    assert torch.autograd.gradcheck(run, [numbers(*shape).requires_grad_() for shape in shapes])


def test_unfold_and_fold_are_torchs() -> None:
    x = numbers(2, 3, 6, 7)
    options = UnfoldOptions(stride=2, padding=1, dilation=[1, 2])
    columns = module.unfold4d(Tensor(x, Cpu()), [2, 3], options)
    torch.testing.assert_close(columns.inner, F.unfold(x, (2, 3), (1, 2), 1, 2))
    back = module.fold4d(columns, [6, 7], [2, 3], options)
    torch.testing.assert_close(back.inner, F.fold(columns.inner, (6, 7), (2, 3), (1, 2), 1, 2))
    assert (columns.rank(), back.rank()) == (3, 4)


@pytest.mark.parametrize(
    ("weight", "bias", "options", "message"),
    [
        ((6, 4, 3), None, ConvOptions(groups=2), "the input has 4 channels, the weight is for 4 in each of 2 groups"),
        ((5, 2, 3), None, ConvOptions(groups=2), "5 channels of the result can't be divided into 2 groups"),
        ((6, 4, 3), (5,), ConvOptions(), "expected a bias of size 6"),
        ((6, 4, 3), None, ConvOptions(stride=[1, 1]), "stride: expected 1 numbers, one per dimension"),
        ((6, 4, 9), None, ConvOptions(), "Kernel size can't be greater"),
    ],
)
def test_conv_refuses_what_does_not_fit(weight: Any, bias: Any, options: ConvOptions, message: str) -> None:
    x: Any = Tensor(numbers(1, 4, 5), Cpu())
    with pytest.raises(TensorValueError, match=message):
        module.conv1d(x, numbers(*weight), None if bias is None else numbers(*bias), options)


def test_conv_refuses_other_ranks_and_dtypes() -> None:
    x: Any = Tensor(numbers(1, 4, 5), Cpu())
    with pytest.raises(TensorTypeError, match="expected a tensor of rank 4, got one of rank 3"):
        module.conv2d(x, numbers(1, 4, 1, 1), None, ConvOptions())
    with pytest.raises(TensorTypeError, match="tensor of rank 3, got rank 4"):
        module.conv1d(x, numbers(1, 4, 1, 1), None, ConvOptions())


def test_conv_transpose_refuses_other_channels() -> None:
    x: Any = Tensor(numbers(1, 4, 5), Cpu())
    with pytest.raises(TensorValueError, match="the input has 4 channels, the weight is for 3"):
        module.conv_transpose1d(x, numbers(3, 4, 2), None, ConvTransposeOptions())


def test_conv3d_refuses_ends_of_different_padding() -> None:
    x: Any = Tensor(numbers(1, 1, 3, 3, 3), Cpu())
    with pytest.raises(TensorValueError, match="padding of the two ends must be equal"):
        module.conv3d(x, numbers(1, 1, 1, 1, 1), None, ConvOptions(padding=[(0, 1), (0, 0), (0, 0)]))


def test_deform_conv_refuses_moves_of_another_shape() -> None:
    x: Any = Tensor(numbers(1, 1, 4, 4), Cpu())
    with pytest.raises(TensorValueError, match=r"offset: expected shape \[1, 8, 3, 3\], got \[1, 8, 4, 4\]"):
        module.deform_conv2d(x, numbers(1, 8, 4, 4), numbers(1, 1, 2, 2), None, None, DeformConvOptions())


def test_parameters_are_detached_on_a_backend_that_does_not_track() -> None:
    weight = torch.nn.Parameter(torch.ones(1, 1, 2))
    x: Any = Tensor(torch.ones(1, 1, 4), Cpu())
    assert not module.conv1d(x, weight, None, ConvOptions()).inner.requires_grad
    tracked: Any = Tensor(torch.ones(1, 1, 4), Autodiff(Cpu()))
    assert module.conv1d(tracked, weight, None, ConvOptions()).inner.requires_grad


def test_autocast_gives_the_type_of_its_dtype() -> None:
    x: Any = Tensor(torch.ones(1, 1, 4), Cpu())
    with torch.autocast("cpu", torch.bfloat16):
        out = module.conv1d(x, torch.ones(1, 1, 2), None, ConvOptions())
    assert (out.inner.dtype, out.spec.dtype) == (torch.bfloat16, torch.bfloat16)

"""`ConvOps`, in torch."""

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from .deform_conv import deform_conv2d

_TRANSPOSE: dict[int, Any] = {3: torch.conv_transpose1d, 4: torch.conv_transpose2d, 5: torch.conv_transpose3d}


class TorchConvOps:
    """Implements `ConvOps`."""

    conv1d: Any = staticmethod(torch.conv1d)
    conv2d: Any = staticmethod(torch.conv2d)
    conv3d: Any = staticmethod(torch.conv3d)
    deform_conv2d: Any = staticmethod(deform_conv2d)
    unfold4d: Any = staticmethod(F.unfold)
    fold4d: Any = staticmethod(F.fold)
    constant_pad: Any = staticmethod(torch.constant_pad_nd)

    @staticmethod
    def conv2d_weight_backward(
        tensor: Tensor,
        weight: Tensor,
        grad: Tensor,
        stride: Sequence[int],
        padding: Sequence[int],
        dilation: Sequence[int],
        groups: int,
        /,
    ) -> Tensor:
        return torch.ops.aten.convolution_backward(
            grad, tensor, weight, None, stride, padding, dilation, False, [0, 0], groups, (False, True, False)
        )[1]

    @staticmethod
    def conv_transpose(
        tensor: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        stride: Sequence[int],
        padding: Sequence[int],
        padding_out: Sequence[int],
        groups: int,
        dilation: Sequence[int],
        /,
    ) -> Tensor:
        conv = _TRANSPOSE[tensor.ndim]
        if all(out < max(step, gap) for out, step, gap in zip(padding_out, stride, dilation, strict=True)):
            return conv(tensor, weight, bias, stride, padding, padding_out, groups, dilation)
        # torch refuses larger values of padding_out; what lies beyond every window is the bias alone.
        whole = conv(tensor, weight, None, stride, 0, 0, groups, dilation)
        amounts = [
            it for cut, out in zip(reversed(padding), reversed(padding_out), strict=True) for it in (-cut, out - cut)
        ]
        cropped = torch.constant_pad_nd(whole, amounts)
        return cropped if bias is None else cropped + bias.reshape(-1, *[1] * (tensor.ndim - 2))

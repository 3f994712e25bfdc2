"""Shape and joining, in torch."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor


class TorchShapeOps:
    """Implements `ShapeOps`."""

    reshape: Any = staticmethod(torch.reshape)
    swap_dims: Any = staticmethod(torch.transpose)
    permute: Any = staticmethod(torch.permute)
    movedim: Any = staticmethod(torch.movedim)
    flip: Any = staticmethod(torch.flip)
    flatten: Any = staticmethod(torch.flatten)
    squeeze: Any = staticmethod(torch.squeeze)
    unsqueeze_dim: Any = staticmethod(torch.unsqueeze)
    expand: Any = staticmethod(Tensor.expand)
    repeat: Any = staticmethod(Tensor.repeat)
    roll: Any = staticmethod(torch.roll)
    cat: Any = staticmethod(torch.cat)
    stack: Any = staticmethod(torch.stack)
    split: Any = staticmethod(torch.split_with_sizes)

    @staticmethod
    def unfold(tensor: Tensor, dim: int, size: int, step: int, /) -> Tensor:
        if size > tensor.shape[dim]:  # no window, where torch refuses
            none = tensor.narrow(dim, 0, 0).unsqueeze(-1)
            return none.expand(*none.shape[:-1], size)
        return tensor.unfold(dim, size, step)

"""Shape and joining, in torch."""

from typing import Any

import torch
from torch import Tensor


class TorchShapeOps:
    """Implements `ShapeOps`."""

    reshape: Any = staticmethod(Tensor.reshape)
    swap_dims: Any = staticmethod(Tensor.transpose)
    permute: Any = staticmethod(Tensor.permute)
    movedim: Any = staticmethod(Tensor.movedim)
    flip: Any = staticmethod(Tensor.flip)
    flatten: Any = staticmethod(Tensor.flatten)
    squeeze: Any = staticmethod(Tensor.squeeze)
    unsqueeze_dim: Any = staticmethod(Tensor.unsqueeze)
    expand: Any = staticmethod(Tensor.expand)
    repeat: Any = staticmethod(Tensor.repeat)
    roll: Any = staticmethod(Tensor.roll)
    cat: Any = staticmethod(torch.cat)
    stack: Any = staticmethod(torch.stack)
    split: Any = staticmethod(Tensor.split_with_sizes)

    @staticmethod
    def unfold(tensor: Tensor, dim: int, size: int, step: int, /) -> Tensor:
        if size > tensor.shape[dim]:  # no window, where torch refuses
            none = tensor.narrow(dim, 0, 0).unsqueeze(-1)
            return none.expand(*none.shape[:-1], size)
        return tensor.unfold(dim, size, step)

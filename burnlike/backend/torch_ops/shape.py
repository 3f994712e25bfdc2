"""Shape and joining, in torch."""

from collections.abc import Sequence

import torch
from torch import Tensor


class TorchShapeOps:
    """Implements `ShapeOps`."""

    reshape = staticmethod(torch.reshape)
    swap_dims = staticmethod(torch.transpose)
    permute = staticmethod(torch.permute)
    movedim = staticmethod(torch.movedim)
    flip = staticmethod(torch.flip)
    flatten = staticmethod(torch.flatten)
    squeeze = staticmethod(torch.squeeze)
    unsqueeze_dim = staticmethod(torch.unsqueeze)
    expand = staticmethod(Tensor.expand)
    repeat = staticmethod(Tensor.repeat)
    roll = staticmethod(torch.roll)
    cat = staticmethod(torch.cat)
    stack = staticmethod(torch.stack)
    split = staticmethod(torch.split)

    @staticmethod
    def unfold(tensor: Tensor, dim: int, size: int, step: int, /) -> Tensor:
        if size > tensor.shape[dim]:  # no window, where torch refuses
            none = tensor.narrow(dim, 0, 0).unsqueeze(-1)
            return none.expand(*none.shape[:-1], size)
        return tensor.unfold(dim, size, step)

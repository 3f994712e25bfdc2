"""`ActivationOps`, in torch."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

_LARGEST_HALF = 65504.0


class TorchActivationOps:
    """Implements `ActivationOps`."""

    relu: Any = staticmethod(Tensor.relu)
    leaky_relu: Any = staticmethod(F.leaky_relu)
    gelu: Any = staticmethod(F.gelu)
    sigmoid: Any = staticmethod(Tensor.sigmoid)
    log_sigmoid: Any = staticmethod(F.logsigmoid)
    silu: Any = staticmethod(F.silu)
    hard_swish: Any = staticmethod(F.hardswish)
    mish: Any = staticmethod(F.mish)
    softplus: Any = staticmethod(F.softplus)
    elu: Any = staticmethod(F.elu)
    celu: Any = staticmethod(torch.celu)
    selu: Any = staticmethod(torch.selu)
    prelu: Any = staticmethod(Tensor.prelu)
    threshold: Any = staticmethod(torch.threshold)
    softsign: Any = staticmethod(F.softsign)
    tanhshrink: Any = staticmethod(F.tanhshrink)
    hard_shrink: Any = staticmethod(Tensor.hardshrink)
    # Not F.hardtanh: clamp passes the gradient at the bounds, as Burn does.
    hardtanh: Any = staticmethod(Tensor.clamp)
    softmax: Any = staticmethod(Tensor.softmax)
    log_softmax: Any = staticmethod(Tensor.log_softmax)
    glu: Any = staticmethod(F.glu)

    @staticmethod
    def gelu_approximate(tensor: Tensor, /) -> Tensor:
        return F.gelu(tensor, approximate="tanh")

    @staticmethod
    def hard_sigmoid(tensor: Tensor, alpha: float, beta: float, /) -> Tensor:
        return torch.clamp(tensor * alpha + beta, 0.0, 1.0)

    @staticmethod
    def shrink(tensor: Tensor, lambd: float, bias: float, /) -> Tensor:
        return torch.where(tensor.abs() > lambd, tensor - tensor.sign() * bias, 0.0)

    @staticmethod
    def soft_shrink(tensor: Tensor, lambd: float, /) -> Tensor:
        # torch refuses a negative lambd and one beyond the element type's range, Burn does not.
        if 0.0 <= lambd <= _LARGEST_HALF:
            return F.softshrink(tensor, lambd)
        return TorchActivationOps.shrink(tensor, lambd, lambd)

    @staticmethod
    def softmin(tensor: Tensor, dim: int, /) -> Tensor:
        return torch.softmax(-tensor, dim)

    @staticmethod
    def quiet_softmax(tensor: Tensor, dim: int, /) -> Tensor:
        if tensor.shape[dim] == 0:
            return torch.softmax(tensor, dim)
        # Any shift gives the same value; one of at least 0 never overflows, also where all are -inf.
        shift = tensor.detach().amax(dim, True).clamp(min=0.0)
        powers = torch.exp(tensor - shift)
        return powers / (powers.sum(dim, True) + torch.exp(-shift))

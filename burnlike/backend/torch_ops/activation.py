"""`ActivationOps`, in torch."""

import torch
import torch.nn.functional as F
from torch import Tensor


class TorchActivationOps:
    """Implements `ActivationOps`."""

    relu = staticmethod(torch.relu)
    leaky_relu = staticmethod(F.leaky_relu)
    gelu = staticmethod(F.gelu)
    sigmoid = staticmethod(torch.sigmoid)
    log_sigmoid = staticmethod(F.logsigmoid)
    silu = staticmethod(F.silu)
    hard_swish = staticmethod(F.hardswish)
    mish = staticmethod(F.mish)
    softplus = staticmethod(F.softplus)
    elu = staticmethod(F.elu)
    celu = staticmethod(torch.celu)
    selu = staticmethod(torch.selu)
    prelu = staticmethod(torch.prelu)
    threshold = staticmethod(torch.threshold)
    softsign = staticmethod(F.softsign)
    tanhshrink = staticmethod(F.tanhshrink)
    hard_shrink = staticmethod(torch.hardshrink)
    # Not F.hardtanh: clamp passes the gradient at the bounds, as Burn does.
    hardtanh = staticmethod(torch.clamp)
    softmax = staticmethod(torch.softmax)
    log_softmax = staticmethod(torch.log_softmax)
    glu = staticmethod(F.glu)

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
        # torch refuses a negative lambd, Burn does not.
        return F.softshrink(tensor, lambd) if lambd >= 0 else TorchActivationOps.shrink(tensor, lambd, lambd)

    @staticmethod
    def softmin(tensor: Tensor, dim: int, /) -> Tensor:
        return torch.softmax(-tensor, dim)

    @staticmethod
    def quiet_softmax(tensor: Tensor, dim: int, /) -> Tensor:
        # Any shift gives the same value; one of at least 0 never overflows, also where all are -inf.
        shift = tensor.detach().amax(dim, True).clamp(min=0.0)
        powers = torch.exp(tensor - shift)
        return powers / (powers.sum(dim, True) + torch.exp(-shift))

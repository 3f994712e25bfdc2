"""A small call of each op that has a derivative, by which `burnlike doctor` proves that its kernels run."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from .add_layer_norm import add_layer_norm
from .add_rms_norm import add_rms_norm
from .attention import attention
from .bias_gelu import bias_gelu
from .cross_entropy import cross_entropy
from .dropout_add import dropout_add
from .geglu import geglu
from .layer_norm import layer_norm
from .masked_softmax import masked_softmax
from .rms_norm import rms_norm
from .rotary import rotary
from .swiglu import swiglu


class Example(NamedTuple):
    """A call of an op: a function of tensors whose result requires a gradient, and the tensors on a device."""

    call: Callable[..., Tensor]
    inputs: Callable[[torch.device | str], tuple[Tensor, ...]]


def _rotary(query: Tensor, key: Tensor) -> Tensor:
    table = torch.ones(3, 2, device=query.device)
    query, key = rotary(query, key, table, table)
    return torch.cat((query, key), 1)


def _ones(device: torch.device | str, *sizes: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.ones(sizes, device=device, dtype=dtype, requires_grad=True)


EXAMPLES = {
    "add_layer_norm": Example(
        lambda x, residual, gamma, beta: add_layer_norm(x, residual, gamma, beta)[0],
        lambda device: (*(_ones(device, 2, 4) for _ in range(2)), *(_ones(device, 4) for _ in range(2))),
    ),
    "add_rms_norm": Example(
        lambda x, residual, gamma: add_rms_norm(x, residual, gamma)[0],
        lambda device: (_ones(device, 2, 4), _ones(device, 2, 4), _ones(device, 4)),
    ),
    "layer_norm": Example(layer_norm, lambda device: (_ones(device, 2, 4), _ones(device, 4), _ones(device, 4))),
    "cross_entropy": Example(
        cross_entropy, lambda device: (_ones(device, 2, 4), torch.zeros(2, dtype=torch.int64, device=device))
    ),
    "attention": Example(attention, lambda device: (_ones(device, 1, 2, 3, 4, dtype=torch.bfloat16),) * 3),
    "bias_gelu": Example(bias_gelu, lambda device: (_ones(device, 2, 4), _ones(device, 4))),
    "dropout_add": Example(dropout_add, lambda device: (_ones(device, 2, 4), _ones(device, 2, 4))),
    "geglu": Example(geglu, lambda device: (_ones(device, 2, 4), _ones(device, 2, 4))),
    "masked_softmax": Example(masked_softmax, lambda device: (_ones(device, 2, 4),)),
    "rms_norm": Example(rms_norm, lambda device: (_ones(device, 2, 4), _ones(device, 4))),
    "rotary": Example(_rotary, lambda device: (_ones(device, 1, 2, 3, 4), _ones(device, 1, 1, 3, 4))),
    "swiglu": Example(swiglu, lambda device: (_ones(device, 2, 4), _ones(device, 2, 4))),
}

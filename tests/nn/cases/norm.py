"""Cases of normalizations."""

import torch
from torch import Tensor

from burnlike import nn

from . import Case, floats


def batch_norm(layer: nn.BatchNorm, x: Tensor) -> Tensor:
    """Ioffe & Szegedy 2015, algorithm 1."""
    dims = [0, *range(2, x.ndim)]
    mean = x.mean(dims, keepdim=True)
    variance = (x - mean).square().mean(dims, keepdim=True)
    shape = [1, -1] + [1] * (x.ndim - 2)
    return (x - mean) / (variance + layer.epsilon).sqrt() * layer.gamma.view(shape) + layer.beta.view(shape)


def local_response_norm(layer: nn.LocalResponseNorm, x: Tensor) -> Tensor:
    """Krizhevsky et al. 2012, section 3.3, channel by channel."""
    squares = x.square()
    before, behind = (layer.size - 1) // 2, layer.size // 2
    sums = [
        squares[:, max(0, channel - before) : channel + behind + 1].sum(1, keepdim=True)
        for channel in range(x.shape[1])
    ]
    return x / (layer.k + layer.alpha / layer.size * torch.cat(sums, 1)) ** layer.beta


def rms_norm(layer: nn.RmsNorm, x: Tensor) -> Tensor:
    """Zhang & Sennrich 2019, eq. 4."""
    return x / (x.square().mean(-1, keepdim=True) + layer.epsilon).sqrt() * layer.gamma


CASES = [
    Case(
        "BatchNorm",
        nn.BatchNormConfig(num_features=3, epsilon=1e-3),
        lambda: (floats(4, 3, 2, 2),),
        bad_shapes=((4,), (4, 2, 2, 2)),
    ),
    Case("BatchNorm/eval", nn.BatchNormConfig(num_features=3), lambda: (floats(4, 3, 2, 2),), train=False),
    Case("BatchNorm/rank_2", nn.BatchNormConfig(num_features=3), lambda: (floats(5, 3),), reference=batch_norm),
    Case("BatchNorm/rank_3", nn.BatchNormConfig(num_features=3), lambda: (floats(5, 3, 2),), reference=batch_norm),
    Case("BatchNorm/rank_6", nn.BatchNormConfig(num_features=2), lambda: (floats(2, 2, 1, 2, 1, 2),), batch_norm),
    Case("BatchNorm/single", nn.BatchNormConfig(num_features=2), lambda: (floats(1, 2, 1),), reference=batch_norm),
    Case("LayerNorm", nn.LayerNormConfig(d_model=4), lambda: (floats(2, 3, 4),), bad_shapes=((2, 3), ())),
    Case("LayerNorm/no_bias", nn.LayerNormConfig(d_model=4, bias=False, epsilon=1e-2), lambda: (floats(4),)),
    Case(
        "GroupNorm",
        nn.GroupNormConfig(num_groups=2, num_channels=4, epsilon=1e-3),
        lambda: (floats(2, 4, 3, 2),),
        bad_shapes=((2,), (2, 3, 3, 2)),
    ),
    Case(
        "GroupNorm/not_affine",
        nn.GroupNormConfig(num_groups=4, num_channels=4, affine=False),
        lambda: (floats(2, 4, 3),),
    ),
    Case(
        "InstanceNorm",
        nn.InstanceNormConfig(num_channels=3, epsilon=1e-3),
        lambda: (floats(2, 3, 2, 4),),
        bad_shapes=((2,), (2, 4, 2, 4)),
    ),
    Case(
        "InstanceNorm/not_affine",
        nn.InstanceNormConfig(num_channels=3, affine=False),
        lambda: (floats(2, 3, 2, 4),),
    ),
    Case("RmsNorm", nn.RmsNormConfig(d_model=4, epsilon=1e-2), lambda: (floats(2, 3, 4),), bad_shapes=((2, 3), ())),
    Case("RmsNorm/formula", nn.RmsNormConfig(d_model=3), lambda: (floats(2, 3),), reference=rms_norm),
    Case(
        "LocalResponseNorm",
        nn.LocalResponseNormConfig(size=3, alpha=0.1, beta=0.5, k=2.0),
        lambda: (floats(2, 5, 2, 3),),
        bad_shapes=((2, 5),),
    ),
    Case(
        "LocalResponseNorm/even",
        nn.LocalResponseNormConfig(size=4, alpha=0.1),
        lambda: (floats(2, 5, 3),),
        reference=local_response_norm,
    ),
    Case(
        "LocalResponseNorm/wide",
        nn.LocalResponseNormConfig(size=7, alpha=0.1),
        lambda: (floats(1, 3, 2, 1, 2),),
        reference=local_response_norm,
    ),
]

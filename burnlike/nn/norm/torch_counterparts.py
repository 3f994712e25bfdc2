"""torch's counterparts of normalizations.

A BatchNorm or an InstanceNorm serves all ranks: what is built for one is torch's layer of rank 4, `BatchNorm2d` or
`InstanceNorm2d`, the last in the list. Running variances are taken as they are; torch's estimate has the divisor n - 1,
burnlike's n: a twin of torch's layer goes on with torch's.
"""

from collections.abc import Callable

import torch
from torch import nn

from ..tensor_source import TensorSource
from ..torch_counterpart import Counterpart, refuse
from .batch_norm import BatchNorm
from .configs import (
    BatchNormConfig,
    GroupNormConfig,
    InstanceNormConfig,
    LayerNormConfig,
    LocalResponseNormConfig,
    RmsNormConfig,
)
from .group_norm import GroupNorm, InstanceNorm
from .layer_norm import LayerNorm
from .local_response_norm import LocalResponseNorm
from .rms_norm import RmsNorm

_AFFINE = {"gamma": TensorSource("weight"), "beta": TensorSource("bias")}
_RUNNING = {name: TensorSource(name) for name in ("running_mean", "running_var")}

BatchNormNd = nn.BatchNorm1d | nn.BatchNorm2d | nn.BatchNorm3d
InstanceNormNd = nn.InstanceNorm1d | nn.InstanceNorm2d | nn.InstanceNorm3d


def _batch_norm(layer: BatchNormNd) -> BatchNormConfig:
    if not layer.affine or not layer.track_running_stats:
        raise refuse(layer, "affine=False and track_running_stats=False have no counterpart")
    if layer.momentum is None:
        raise refuse(layer, "momentum=None, the mean of all batches, has no counterpart")
    return BatchNormConfig(num_features=layer.num_features, epsilon=layer.eps, momentum=layer.momentum)


def _build_batch_norm(made: type[BatchNormNd]) -> Callable[[BatchNorm, torch.device], nn.Module]:
    return lambda it, device: made(it.gamma.shape[0], it.epsilon, it.momentum, device=device)


def _instance_norm(layer: InstanceNormNd) -> InstanceNormConfig:
    if layer.track_running_stats:
        raise refuse(layer, "track_running_stats=True has no counterpart")
    return InstanceNormConfig(num_channels=layer.num_features, epsilon=layer.eps, affine=layer.affine)


def _build_instance_norm(made: type[InstanceNormNd]) -> Callable[[InstanceNorm, torch.device], nn.Module]:
    return lambda it, device: made(it.num_channels, it.epsilon, affine=it.affine, device=device)


def _one_size(layer: nn.LayerNorm | nn.RMSNorm) -> int:
    if len(layer.normalized_shape) != 1:
        raise refuse(layer, f"normalized_shape={tuple(layer.normalized_shape)} has more than one dimension")
    if not layer.elementwise_affine:
        raise refuse(layer, "elementwise_affine=False has no counterpart")
    return layer.normalized_shape[0]


def _layer_norm(layer: nn.LayerNorm) -> LayerNormConfig:
    return LayerNormConfig(d_model=_one_size(layer), epsilon=layer.eps, bias=layer.bias is not None)


def _build_layer_norm(layer: LayerNorm, device: torch.device) -> nn.LayerNorm:
    return nn.LayerNorm(layer.gamma.shape[0], layer.epsilon, bias=layer.beta is not None, device=device)


def _group_norm(layer: nn.GroupNorm) -> GroupNormConfig:
    return GroupNormConfig(
        num_groups=layer.num_groups, num_channels=layer.num_channels, epsilon=layer.eps, affine=layer.affine
    )


def _build_group_norm(layer: GroupNorm, device: torch.device) -> nn.GroupNorm:
    return nn.GroupNorm(layer.num_groups, layer.num_channels, layer.epsilon, layer.affine, device=device)


def _rms_norm(layer: nn.RMSNorm) -> RmsNormConfig:
    d_model = _one_size(layer)
    if layer.eps is not None:
        return RmsNormConfig(d_model=d_model, epsilon=layer.eps)
    # None is the epsilon of the type that torch computes in, float32 for 16 bits; the input's is the weight's but for
    # mixed precision.
    computed = torch.promote_types(layer.weight.dtype, torch.float32)
    return RmsNormConfig(d_model=d_model, epsilon=torch.finfo(computed).eps)


def _build_rms_norm(layer: RmsNorm, device: torch.device) -> nn.RMSNorm:
    return nn.RMSNorm(layer.gamma.shape[0], layer.epsilon, device=device)


def _local_response_norm(layer: nn.LocalResponseNorm) -> LocalResponseNormConfig:
    _check_odd(layer)
    return LocalResponseNormConfig(size=layer.size, alpha=layer.alpha, beta=layer.beta, k=layer.k)


def _build_local_response_norm(layer: LocalResponseNorm, device: torch.device) -> nn.LocalResponseNorm:
    _check_odd(layer)
    return nn.LocalResponseNorm(layer.size, layer.alpha, layer.beta, layer.k)


def _check_odd(layer: nn.LocalResponseNorm | LocalResponseNorm) -> None:
    if layer.size % 2 == 0:
        raise refuse(layer, f"size={layer.size} is even: torch has the extra channel on the other side")


COUNTERPARTS = [
    *(
        Counterpart(
            "BatchNorm",
            made,
            _batch_norm,
            _build_batch_norm(made),
            {**_AFFINE, **_RUNNING},
            ignored=("num_batches_tracked",),
        )
        for made in (nn.BatchNorm1d, nn.BatchNorm3d, nn.BatchNorm2d)
    ),
    *(
        Counterpart("InstanceNorm", made, _instance_norm, _build_instance_norm(made), _AFFINE)
        for made in (nn.InstanceNorm1d, nn.InstanceNorm3d, nn.InstanceNorm2d)
    ),
    Counterpart("LayerNorm", nn.LayerNorm, _layer_norm, _build_layer_norm, _AFFINE),
    Counterpart("GroupNorm", nn.GroupNorm, _group_norm, _build_group_norm, _AFFINE),
    Counterpart("RmsNorm", nn.RMSNorm, _rms_norm, _build_rms_norm, {"gamma": TensorSource("weight")}),
    Counterpart("LocalResponseNorm", nn.LocalResponseNorm, _local_response_norm, _build_local_response_norm),
]

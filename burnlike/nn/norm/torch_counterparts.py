"""torch's counterparts of normalizations.

A BatchNorm or an InstanceNorm serves all ranks: what is built for one is torch's layer of rank 4, `BatchNorm2d` or
`InstanceNorm2d`, the last in the list. Running variances are taken as they are; torch's estimate has the divisor n - 1,
burnlike's n: a twin of torch's layer goes on with torch's.
"""

from typing import Any

import torch
from torch import nn

from ..tensor_source import TensorSource
from ..torch_counterpart import Counterpart, alike, expect_only, refuse
from . import configs

_AFFINE = {"gamma": TensorSource("weight"), "beta": TensorSource("bias")}
_RUNNING = {name: TensorSource(name) for name in ("running_mean", "running_var")}


def _one_size(layer: nn.LayerNorm | nn.RMSNorm) -> int:
    if len(layer.normalized_shape) != 1:
        raise refuse(layer, f"normalized_shape={tuple(layer.normalized_shape)} has more than one dimension")
    expect_only(layer, elementwise_affine=True)
    return layer.normalized_shape[0]


def _rms_norm(layer: nn.RMSNorm) -> configs.RmsNormConfig:
    d_model = _one_size(layer)
    if layer.eps is not None:
        return configs.RmsNormConfig(d_model=d_model, epsilon=layer.eps)
    # None is the epsilon of the type that torch computes in, float32 for 16 bits; the input's is the weight's but for
    # mixed precision.
    computed = torch.promote_types(layer.weight.dtype, torch.float32)
    return configs.RmsNormConfig(d_model=d_model, epsilon=torch.finfo(computed).eps)


def _response_norm(layer: Any) -> dict[str, Any]:
    if layer.size % 2 == 0:
        raise refuse(layer, f"size={layer.size} is even: torch has the extra channel on the other side")
    return {name: getattr(layer, name) for name in ("size", "alpha", "beta", "k")}


COUNTERPARTS = [
    *(
        alike(
            configs.BatchNormConfig,
            twin,
            {**_AFFINE, **_RUNNING},
            {"affine": True, "track_running_stats": True},
            ("num_batches_tracked",),
            epsilon="eps",
        )
        for twin in (nn.BatchNorm1d, nn.BatchNorm3d, nn.BatchNorm2d)
    ),
    *(
        alike(
            configs.InstanceNormConfig,
            twin,
            _AFFINE,
            {"track_running_stats": False},
            num_channels="num_features",
            epsilon="eps",
        )
        for twin in (nn.InstanceNorm1d, nn.InstanceNorm3d, nn.InstanceNorm2d)
    ),
    Counterpart(
        "LayerNorm",
        nn.LayerNorm,
        lambda it: configs.LayerNormConfig(d_model=_one_size(it), epsilon=it.eps, bias=it.bias is not None),
        lambda it, device: nn.LayerNorm(it.gamma.shape[0], it.epsilon, bias=it.beta is not None, device=device),
        _AFFINE,
    ),
    alike(configs.GroupNormConfig, nn.GroupNorm, _AFFINE, epsilon="eps"),
    Counterpart(
        "RmsNorm",
        nn.RMSNorm,
        _rms_norm,
        lambda it, device: nn.RMSNorm(it.gamma.shape[0], it.epsilon, device=device),
        {"gamma": TensorSource("weight")},
    ),
    Counterpart(
        "LocalResponseNorm",
        nn.LocalResponseNorm,
        lambda it: configs.LocalResponseNormConfig(**_response_norm(it)),
        lambda it, device: nn.LocalResponseNorm(**_response_norm(it)),
    ),
]

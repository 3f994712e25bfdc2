"""Drawing the values that an `Initializer` describes."""

import math
from collections.abc import Sequence

import torch
from torch import nn

from ...errors import ConfigError
from . import configs as kinds


def initialize(
    rule: kinds.Initializer,
    shape: Sequence[int],
    fan_in: int | None,
    fan_out: int | None,
    device: torch.device | str | None,
) -> nn.Parameter:
    """Make and fill a parameter; see `Initializer.init`."""
    values = torch.empty(*shape, device=device)
    if not values.is_meta:
        with torch.no_grad():
            _fill(rule, values, fan_in, fan_out)
    return nn.Parameter(values)


def _fill(rule: kinds.Initializer, values: torch.Tensor, fan_in: int | None, fan_out: int | None) -> None:
    match rule:
        case kinds.Constant(value=value):
            values.fill_(value)
        case kinds.Zeros():
            values.zero_()
        case kinds.Ones():
            values.fill_(1.0)
        case kinds.Uniform(min=low, max=high):
            values.uniform_(low, high)
        case kinds.Normal(mean=mean, std=std):
            values.normal_(mean, std)
        case kinds.KaimingUniform(gain=gain, fan_out_only=fan_out_only):
            _uniform(values, gain / math.sqrt(_fan(rule, fan_in, fan_out, fan_out_only)))
        case kinds.KaimingNormal(gain=gain, fan_out_only=fan_out_only):
            values.normal_(0.0, gain / math.sqrt(_fan(rule, fan_in, fan_out, fan_out_only)))
        case kinds.XavierUniform(gain=gain):
            _uniform(values, gain * _xavier_std(rule, fan_in, fan_out))
        case kinds.XavierNormal(gain=gain):
            values.normal_(0.0, gain * _xavier_std(rule, fan_in, fan_out))
        case kinds.Orthogonal(gain=gain):
            _orthogonal(values, gain)
        case _:
            raise ConfigError(f"{type(rule).__name__} is no known initializer: override its `init`")


def _uniform(values: torch.Tensor, std: float) -> None:
    bound = math.sqrt(3.0) * std
    values.uniform_(-bound, bound)


def _fan(rule: kinds.Initializer, fan_in: int | None, fan_out: int | None, fan_out_only: bool) -> int:
    fan = fan_out if fan_out_only else fan_in
    if fan is None:
        missing = "fan_out" if fan_out_only else "fan_in"
        raise ConfigError(f"{type(rule).__name__} needs {missing}, which this parameter does not have")
    return fan


def _xavier_std(rule: kinds.Initializer, fan_in: int | None, fan_out: int | None) -> float:
    return math.sqrt(2.0 / (_fan(rule, fan_in, fan_out, False) + _fan(rule, fan_in, fan_out, True)))


def _orthogonal(values: torch.Tensor, gain: float) -> None:
    if values.ndim < 2:
        raise ConfigError(f"Orthogonal needs a parameter of rank 2 or more, got shape {list(values.shape)}")
    nn.init.orthogonal_(values, gain)

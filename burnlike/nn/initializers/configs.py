"""Initializers: how a parameter gets its first values. The rules are Burn's (burn-nn 0.22.1, initializer.rs)."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...config import Config
from ...config.bounds import Finite, NotNegative
from ...errors import ConfigError

if TYPE_CHECKING:
    import torch


class Initializer(Config):
    """Role of all initializers."""

    def init(
        self,
        shape: Sequence[int],
        *,
        fan_in: int | None = None,
        fan_out: int | None = None,
        device: "torch.device | str | None" = None,
    ) -> "torch.nn.Parameter":
        """Make a parameter of `shape`, drawn from torch's global generator; on the meta device nothing is drawn.

        Args:
            fan_in: values that flow into one output; needed by the Kaiming and Xavier rules.
            fan_out: outputs that one input feeds.

        Raises ConfigError if the rule needs a fan that is not given, or rank 2 or more; DeviceError if this machine
        does not have the device.
        """
        import torch

        from ...backend.torch_backend import named_device

        values = torch.empty(*shape, device=None if device is None else named_device(device))
        if not values.is_meta:
            with torch.no_grad():
                _fill(self, values, fan_in, fan_out)
        return torch.nn.Parameter(values)


class Constant(Initializer, tag="Constant"):
    """Every value is `value`."""

    value: Finite


class Zeros(Initializer, tag="Zeros"):
    """Every value is 0."""


class Ones(Initializer, tag="Ones"):
    """Every value is 1."""


class Uniform(Initializer, tag="Uniform"):
    """U(min, max)."""

    min: Finite
    max: Finite


class Normal(Initializer, tag="Normal"):
    """N(mean, std)."""

    mean: Finite = 0.0
    std: NotNegative = 1.0


class KaimingUniform(Initializer, tag="KaimingUniform"):
    """U(-a, a) with a = sqrt(3) * gain / sqrt(fan) (He et al. 2015); the default gain is that of Burn's Linear."""

    gain: Finite = 1 / 3**0.5
    fan_out_only: bool = False


class KaimingNormal(Initializer, tag="KaimingNormal"):
    """N(0, gain / sqrt(fan)) (He et al. 2015)."""

    gain: Finite = 1 / 3**0.5
    fan_out_only: bool = False


class XavierUniform(Initializer, tag="XavierUniform"):
    """U(-a, a) with a = sqrt(3) * gain * sqrt(2 / (fan_in + fan_out)) (Glorot & Bengio 2010)."""

    gain: Finite = 1.0


class XavierNormal(Initializer, tag="XavierNormal"):
    """N(0, gain * sqrt(2 / (fan_in + fan_out))) (Glorot & Bengio 2010)."""

    gain: Finite = 1.0


class Orthogonal(Initializer, tag="Orthogonal"):
    """Gain times a random matrix with orthonormal rows or columns (Saxe et al. 2014), of rank 2 or more."""

    gain: Finite = 1.0


def _fill(rule: Initializer, values: "torch.Tensor", fan_in: int | None, fan_out: int | None) -> None:
    match rule:
        case Constant(value=value):
            values.fill_(value)
        case Zeros():
            values.zero_()
        case Ones():
            values.fill_(1.0)
        case Uniform(min=low, max=high):
            values.uniform_(low, high)
        case Normal(mean=mean, std=std):
            values.normal_(mean, std)
        case KaimingUniform(gain=gain, fan_out_only=fan_out_only):
            _uniform(values, gain / math.sqrt(_fan(rule, fan_in, fan_out, fan_out_only)))
        case KaimingNormal(gain=gain, fan_out_only=fan_out_only):
            values.normal_(0.0, gain / math.sqrt(_fan(rule, fan_in, fan_out, fan_out_only)))
        case XavierUniform(gain=gain):
            _uniform(values, gain * _xavier_std(rule, fan_in, fan_out))
        case XavierNormal(gain=gain):
            values.normal_(0.0, gain * _xavier_std(rule, fan_in, fan_out))
        case Orthogonal(gain=gain):
            if values.ndim < 2:
                raise ConfigError(f"Orthogonal needs a parameter of rank 2 or more, got shape {list(values.shape)}")
            from torch.nn import init

            init.orthogonal_(values, gain)
        case _:
            raise ConfigError(f"{type(rule).__name__} is no known initializer: override its `init`")


def _uniform(values: "torch.Tensor", std: float) -> None:
    bound = math.sqrt(3.0) * std
    values.uniform_(-bound, bound)


def _fan(rule: Initializer, fan_in: int | None, fan_out: int | None, fan_out_only: bool) -> int:
    fan, name = (fan_out, "fan_out") if fan_out_only else (fan_in, "fan_in")
    if fan is None:
        raise ConfigError(f"{type(rule).__name__} needs {name}, which this parameter does not have")
    return fan


def _xavier_std(rule: Initializer, fan_in: int | None, fan_out: int | None) -> float:
    return math.sqrt(2.0 / (_fan(rule, fan_in, fan_out, False) + _fan(rule, fan_in, fan_out, True)))

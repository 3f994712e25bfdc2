"""Initializers: how a parameter gets its first values. The rules are Burn's (burn-nn 0.22.1, initializer.rs)."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...config import Config
from ...config.bounds import Finite, NotNegative

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
        """Make a parameter of `shape`, drawn from torch's global generator.

        On the meta device nothing is drawn.

        Args:
            shape: the parameter's shape.
            fan_in: values that flow into one output; needed by the Kaiming and Xavier rules.
            fan_out: outputs that one input feeds.
            device: where to make it; None is torch's default device.

        Raises:
            ConfigError: the rule needs a fan that is not given, or rank 2 or more.
        """
        from .initialize import initialize

        return initialize(self, shape, fan_in, fan_out, device)


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

"""Distribution: the distribution of random tensors."""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, ClassVar

import torch

from ...errors import TensorTypeError, TensorValueError


@dataclasses.dataclass(frozen=True)
class Distribution:
    """The distribution of random elements: `Default`, `Bernoulli(p)`, `Uniform(low, high)` or `Normal(mean, std)`.

    Int elements are drawn as floating point numbers and truncated.

    Attributes:
        name: one of the four.
        first: the probability, the lower bound, or the mean.
        second: the upper bound, or the standard deviation.

    Example:
        >>> Distribution.Uniform(-1.0, 1.0)
        Distribution.Uniform(-1.0, 1.0)
    """

    name: str
    first: float = 0.0
    second: float = 0.0

    Default: ClassVar["Distribution"]

    @staticmethod
    def Bernoulli(probability: float) -> "Distribution":
        """1 with `probability` (0 to 1), else 0. Raises TensorValueError: outside of 0..1."""
        if not 0.0 <= probability <= 1.0:
            raise TensorValueError("Random", f"expected a probability of 0 to 1, got {probability}")
        return Distribution("Bernoulli", probability)

    @staticmethod
    def Uniform(low: float, high: float) -> "Distribution":
        """From `low` (included) to `high` (excluded), all equally likely.

        Raises TensorValueError: bounds that are not finite, or `low` above `high`.
        """
        if not (math.isfinite(low) and math.isfinite(high) and low <= high):
            raise TensorValueError("Random", f"expected finite bounds, the lower one first, got {low} and {high}")
        return Distribution("Uniform", low, high)

    @staticmethod
    def Normal(mean: float, std: float) -> "Distribution":
        """Normal, around `mean` with the standard deviation `std` (0 or above).

        Raises TensorValueError: numbers that are not finite, or a negative `std`.
        """
        if not (math.isfinite(mean) and math.isfinite(std) and std >= 0):
            raise TensorValueError("Random", f"expected a finite mean and a std >= 0, got {mean} and {std}")
        return Distribution("Normal", mean, std)

    def __repr__(self) -> str:
        numbers = {"Default": "", "Bernoulli": f"({self.first})"}.get(self.name, f"({self.first}, {self.second})")
        return f"Distribution.{self.name}{numbers}"


Distribution.Default = Distribution("Default")


def draw(
    distribution: Distribution, ops: Any, shape: Sequence[int], dtype: torch.dtype, device: torch.device
) -> torch.Tensor:
    """A torch tensor of `shape`, drawn by the functions `ops` of a backend. Raises TensorTypeError: no Distribution."""
    if not isinstance(distribution, Distribution):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TensorTypeError("Random", f"expected a Distribution, such as Distribution.Default, got {distribution!r}")
    if distribution.name == "Normal":
        return ops.normal(shape, distribution.first, distribution.second, dtype, device)
    if distribution.name == "Bernoulli":
        return ops.bernoulli(shape, distribution.first, dtype, device)
    if distribution.name == "Uniform":
        return ops.uniform(shape, distribution.first, distribution.second, dtype, device)
    return ops.uniform(shape, 0.0, 1.0 if dtype.is_floating_point else 255.0, dtype, device)

"""Scaling of rotary frequencies for sequences longer than those of the pretraining. Imports no torch."""

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, ClassVar

from ...config import Config, Meta
from ...config.bounds import Positive, Size, at_most

if TYPE_CHECKING:
    from torch import Tensor

Factor = Annotated[float, Meta(ge=1), at_most(1e6, "positions so far apart can't be told apart in float32")]


class RotaryScaling(Config):
    """Role of the scalings of rotary frequencies."""

    by_length: ClassVar[bool] = False
    """Whether the frequencies also depend on the length of the sequence at hand."""

    def scaled(self, frequencies: Sequence[float], theta: float) -> list[float]:
        """The frequencies in place of theta^(-2i/d).

        Args:
            frequencies: theta^(-2i/d) for each of the d / 2 pairs.
            theta: their base.
        """
        raise NotImplementedError(f"{type(self).__name__} does not define scaled(frequencies, theta)")

    def scaled_by_length(self, frequencies: "Tensor", length: "Tensor") -> "Tensor":
        """The frequencies in a sequence of some length, where `by_length` is True.

        Args:
            frequencies: those of `scaled`, float64 `[d / 2]`.
            length: float64 `[]`, of the longest sequence at hand; its value is not read, so that graphs hold for all.
        """
        raise NotImplementedError(f"{type(self).__name__} does not define scaled_by_length(frequencies, length)")

    @property
    def magnitude(self) -> float:
        """The factor of cosines and sines."""
        return 1.0


class LinearScaling(RotaryScaling, tag="LinearScaling"):
    """All frequencies divided by one factor: positions lie closer together (Chen et al. 2023, eq. 4).

    Attributes:
        factor: how many times longer the sequences are.
    """

    factor: Factor

    def scaled(self, frequencies: Sequence[float], theta: float) -> list[float]:
        return [frequency / self.factor for frequency in frequencies]


class DynamicScaling(RotaryScaling, tag="DynamicScaling"):
    """A larger base the longer the sequence, none up to the original length (Peng et al. 2023, section 3.3).

    theta * (factor * length / original_length - (factor - 1))^(d / (d - 2)). Frequencies change with the length of the
    sequence; keys in a cache keep the rotation that they got, as in `transformers`.

    Attributes:
        factor: how fast the base grows.
        original_length: longest sequence of the pretraining.
    """

    by_length: ClassVar[bool] = True

    factor: Factor
    original_length: Size

    def scaled(self, frequencies: Sequence[float], theta: float) -> list[float]:
        return [*frequencies]

    def scaled_by_length(self, frequencies: "Tensor", length: "Tensor") -> "Tensor":
        longer = length.clamp(min=self.original_length) / self.original_length
        growth = self.factor * longer - (self.factor - 1)
        # The base's factor growth^(d / (d - 2)) to the power of -2i/d.
        last = frequencies.shape[0] - 1
        return frequencies * growth ** frequencies.new_tensor([-pair / last for pair in range(last + 1)])


class YarnScaling(RotaryScaling, tag="YarnScaling"):
    """Low frequencies divided, high ones kept, and a ramp between them (YaRN, Peng et al. 2023, section 3.2).

    Attributes:
        factor: how many times longer the sequences are.
        original_length: longest sequence of the pretraining.
        beta_fast: pairs that turn more often than this within the original length are kept.
        beta_slow: pairs that turn less often than this are divided by the factor.
        attention_factor: what cosines and sines are multiplied with; None for 0.1 ln(factor) + 1 (eq. 22).
        truncate: whether the ends of the ramp are whole pairs.
    """

    factor: Factor
    original_length: Size
    beta_fast: Positive = 32.0
    beta_slow: Positive = 1.0
    attention_factor: Positive | None = None
    truncate: bool = True

    def validate(self) -> Iterable[tuple[str, str]]:
        if self.beta_slow >= self.beta_fast:
            yield "beta_slow", f"expected less than beta_fast ({self.beta_fast}), got {self.beta_slow}"

    @property
    def magnitude(self) -> float:
        return 0.1 * math.log(self.factor) + 1 if self.attention_factor is None else self.attention_factor

    def scaled(self, frequencies: Sequence[float], theta: float) -> list[float]:
        low, high = self._ramp(2 * len(frequencies), theta)
        scaled = []
        for pair, frequency in enumerate(frequencies):
            divided = min(max((pair - low) / (high - low), 0.0), 1.0)
            scaled.append(frequency * (divided / self.factor + 1 - divided))
        return scaled

    def _ramp(self, size: int, theta: float) -> tuple[float, float]:
        """The pairs where dividing begins and where it is complete."""

        def pair_of(turns: float) -> float:
            return size * math.log(self.original_length / (turns * 2 * math.pi)) / (2 * math.log(theta))

        low, high = pair_of(self.beta_fast), pair_of(self.beta_slow)
        if self.truncate:
            low, high = math.floor(low), math.ceil(high)
        low, high = max(low, 0), min(high, size - 1)
        return low, high if high != low else high + 0.001


class Llama3Scaling(RotaryScaling, tag="Llama3Scaling"):
    """Long waves divided, short ones kept, and those between in proportion (Llama 3.1; Dubey et al. 2024).

    Attributes:
        factor: how many times longer the sequences are.
        low_freq_factor: waves longer than original_length / low_freq_factor are divided.
        high_freq_factor: waves shorter than original_length / high_freq_factor are kept.
        original_length: longest sequence of the pretraining.
    """

    factor: Factor = 8.0
    low_freq_factor: Positive = 1.0
    high_freq_factor: Positive = 4.0
    original_length: Size = 8192

    def validate(self) -> Iterable[tuple[str, str]]:
        if self.low_freq_factor >= self.high_freq_factor:
            most = f"less than high_freq_factor ({self.high_freq_factor})"
            yield "low_freq_factor", f"expected {most}, got {self.low_freq_factor}"

    def scaled(self, frequencies: Sequence[float], theta: float) -> list[float]:
        between = self.high_freq_factor - self.low_freq_factor
        scaled = []
        for frequency in frequencies:
            turns = self.original_length * frequency / (2 * math.pi)
            kept = min(max((turns - self.low_freq_factor) / between, 0.0), 1.0)
            scaled.append(frequency * (kept + (1 - kept) / self.factor))
        return scaled
